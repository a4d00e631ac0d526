/* The boot loader's one decision: which slot to run.
 *
 *     a slot is on trial, has attempts left and verifies   run it, with one attempt less
 *     a slot is on trial, else                             the trial is over: the active slot again
 *     the active slot verifies                             run it
 *     only the other one does                              make it the active one, and run it
 *     none does                                            HG_FIRMWARE_ABSENT
 *
 * "Verifies" is signature, board, counter and digest, at every boot. The board then makes the slot's image appear at the
 * address it is linked for (by exchanging banks, by remapping, or by a copy to RAM), starts a watchdog if it is on
 * trial, and jumps. A firmware on trial does not feed that watchdog before it is confirmed: one that hangs is reset.
 */
#ifndef HG_BOOT_H
#define HG_BOOT_H

#include "hg_firmware.h"

typedef struct {
    unsigned slot;
    bool is_trial;
    uint32_t image_address;
    uint32_t size_bytes;
} hg_boot_choice_t;

hg_firmware_status_t hg_boot_choose(const hg_bootable_t *device, hg_boot_choice_t *choice);

#endif
