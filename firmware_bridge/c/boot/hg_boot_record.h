/* Which slot runs, which one is on trial, and below which counter nothing runs again.
 *
 *     offset  bytes  what (numbers little-endian)
 *     0       4      HGBR
 *     4       4      sequence: one more at every change
 *     8       1      active slot: 0 or 1, the last one that was confirmed
 *     9       1      trial of the other slot: hg_trial_t
 *     10      1      attempts that the trial has left
 *     11      1      how the last trial ended: hg_trial_end_t
 *     12      4      lowest counter that may run
 *     16      12     zeros
 *     28      4      CRC-32 (IEEE) of all before
 *
 * There are two places for it, each a sector. The record with sequence n is in place n mod 2, so a change never touches
 * the record that counts, and a torn one is as if it had never begun. Without any record, slot 0 is active.
 */
#ifndef HG_BOOT_RECORD_H
#define HG_BOOT_RECORD_H

#include "hg_firmware.h"

#define HG_BOOT_RECORD_BYTES 32u

typedef enum {
    HG_TRIAL_NONE = 0,
    HG_TRIAL_STAGED = 1, /* whole and verified; the next reset runs it */
    HG_TRIAL_RUNS = 2    /* the boot loader has started it */
} hg_trial_t;

typedef enum { HG_TRIAL_NEVER_ENDED = 0, HG_TRIAL_CONFIRMED = 1, HG_TRIAL_REVERTED = 2 } hg_trial_end_t;

typedef struct {
    uint32_t sequence;
    uint8_t active;
    uint8_t trial;
    uint8_t attempts_left;
    uint8_t last_end;
    uint32_t lowest_counter;
} hg_boot_record_t;

void hg_boot_record_load(const hg_flash_t *flash, hg_boot_record_t *record);

/* Makes it durable as the next in sequence, and reads it back. If that fails, `record` is what flash holds instead. */
hg_firmware_status_t hg_boot_record_save(const hg_flash_t *flash, hg_boot_record_t *record);

#endif
