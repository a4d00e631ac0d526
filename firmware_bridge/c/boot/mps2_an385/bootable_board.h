/* The mps2-an385 board (as QEMU builds it) as a device with updatable firmware.
 *
 *     0x00000000  boot loader: what the board comes with, and nothing on the link can change
 *     0x00010000  where firmware is linked for and runs; the boot loader copies the chosen slot here
 *     0x20000000  RAM
 *     0x21000000  flash: RAM that simulates NOR flash; QEMU can store it in a file, so that it survives a power cut
 */
#ifndef BOOTABLE_BOARD_H
#define BOOTABLE_BOARD_H

#include "../hg_firmware.h"

#define BOARD_NAME "mps2-an385"
#define BOARD_FIRMWARE_ADDRESS 0x00010000u
#define BOARD_FIRMWARE_BYTES 0x00040000u

/* How long firmware on trial may take until it is confirmed. The watchdog counts twice before it resets. */
#ifndef BOARD_TRIAL_S
#define BOARD_TRIAL_S 60u
#endif
#if BOARD_TRIAL_S < 1 || BOARD_TRIAL_S > 300
#error "BOARD_TRIAL_S: 1 to 300, what the watchdog can count"
#endif

extern const hg_bootable_t bootable_device;

void bootable_start_watchdog(void); /* of a trial */
void bootable_stop_watchdog(void);
void bootable_reset_soon(void); /* by the watchdog, when the response has been sent */

#endif
