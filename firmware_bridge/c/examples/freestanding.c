/* What a compiler expects of any freestanding program, and what happens before main. */
#include <stddef.h>
#include <stdint.h>

#include "freestanding.h"

void *memcpy(void *to, const void *from, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

void *memmove(void *to, const void *from, size_t len)
{
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, len);
    }
    while (len-- > 0) {
        ((uint8_t *)to)[len] = ((const uint8_t *)from)[len];
    }
    return to;
}

void *memset(void *to, int byte, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)to)[i] = (uint8_t)byte;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int difference = ((const uint8_t *)a)[i] - ((const uint8_t *)b)[i];
        if (difference != 0) {
            return difference;
        }
    }
    return 0;
}

/* From the linker script. */
extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[];

void reset(void)
{
    memcpy(data_start, data_load, (size_t)((uintptr_t)data_end - (uintptr_t)data_start));
    memset(bss_start, 0, (size_t)((uintptr_t)bss_end - (uintptr_t)bss_start));
    main();
    for (;;) {
    }
}

void halt(void)
{
    for (;;) {
    }
}

/* ---- Received bytes, from the interrupt handler to the main loop ---- */

void ring_put(ring_t *ring, uint8_t byte)
{
    uint16_t next = (uint16_t)((ring->head + 1u) % RING_BYTES);
    if (next != ring->tail) {      /* full: the byte is lost, and the link asks for its frame again */
        ring->bytes[ring->head] = byte;
        ring->head = next;
    }
}

size_t ring_take(ring_t *ring, uint8_t *data, size_t size)
{
    size_t taken = 0;
    while (taken < size && ring->tail != ring->head) {
        data[taken++] = ring->bytes[ring->tail];
        ring->tail = (uint16_t)((ring->tail + 1u) % RING_BYTES);
    }
    return taken;
}

void sleep_until_interrupt(const ring_t *ring)
{
    __asm volatile("cpsid i" ::: "memory");      /* what arrives from here on still wakes, and is handled after */
    if (ring->tail == ring->head) {
        __asm volatile("wfi" ::: "memory");
    }
    __asm volatile("cpsie i" ::: "memory");
}

/* ---- A boot id without a source of chance ---- */

/* Survives a reset, not a power cut. */
static uint32_t boots __attribute__((section(".noinit")));

void mix_boot_id(uint8_t boot_id[8], uint32_t (*fast_counter)(void))
{
    uint64_t hash = 0xcbf29ce484222325u ^ ++boots;
    for (unsigned i = 0; i < JITTER_SAMPLES; i++) {
        uint32_t before = fast_counter(), turns = 0;
        while (fast_counter() == before && turns < UINT32_MAX) {
            turns++;
        }
        hash = (hash ^ turns ^ before) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    memcpy(boot_id, &hash, 8);
}
