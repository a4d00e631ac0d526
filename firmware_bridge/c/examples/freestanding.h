/* Shared by the examples that run on bare metal. */
#ifndef FREESTANDING_H
#define FREESTANDING_H

#include <stddef.h>
#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RING_BYTES 512u
#define JITTER_SAMPLES 512u

typedef struct { volatile uint16_t head, tail; uint8_t bytes[RING_BYTES]; } ring_t;

void ring_put(ring_t *ring, uint8_t byte);                          /* interrupt handler */
size_t ring_take(ring_t *ring, uint8_t *data, size_t size);         /* main loop */
void sleep_until_interrupt(const ring_t *ring);                     /* returns at once if there are bytes */

/* A boot id from how long a fast counter takes to move, in turns of a loop, and from a count that survives resets.
 * Two clocks that know nothing of each other give it enough chance for an example. A product should use its random
 * number generator, or a counter in flash. */
void mix_boot_id(uint8_t boot_id[8], uint32_t (*fast_counter)(void));

void reset(void);
void halt(void);
int main(void);

#endif
