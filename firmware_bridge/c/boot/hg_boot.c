#include "hg_boot.h"

#include "hg_boot_record.h"
#include "hg_slot.h"

static bool is_runnable(const hg_bootable_t *device, const hg_boot_record_t *record, unsigned slot,
                        hg_boot_choice_t *choice)
{
    hg_slot_head_t head;
    if (hg_slot_verify(device, slot, record->lowest_counter, &head) != HG_FIRMWARE_OK) {
        return false;
    }
    choice->slot = slot;
    choice->image_address = device->flash->slot_address[slot] + device->flash->sector_bytes;
    choice->size_bytes = head.manifest.size_bytes;
    return true;
}

/* An attempt counts before it is made: a start that ends in a power cut is one, too. */
static bool use_attempt(const hg_flash_t *flash, hg_boot_record_t *record)
{
    record->trial = HG_TRIAL_RUNS;
    record->attempts_left--;
    return hg_boot_record_save(flash, record) == HG_FIRMWARE_OK;
}

static void end_trial(const hg_flash_t *flash, hg_boot_record_t *record)
{
    record->trial = HG_TRIAL_NONE;
    record->last_end = HG_TRIAL_REVERTED;
    (void)hg_boot_record_save(flash, record); /* if it fails, the next boot decides the same again */
}

hg_firmware_status_t hg_boot_choose(const hg_bootable_t *device, hg_boot_choice_t *choice)
{
    hg_boot_record_t record;
    hg_boot_record_load(device->flash, &record);
    unsigned other = 1u - record.active;
    if (record.trial != HG_TRIAL_NONE) {
        choice->is_trial = record.attempts_left > 0 && is_runnable(device, &record, other, choice)
            && use_attempt(device->flash, &record);
        if (choice->is_trial) {
            return HG_FIRMWARE_OK;
        }
        end_trial(device->flash, &record);
    }
    choice->is_trial = false;
    if (is_runnable(device, &record, record.active, choice)) {
        return HG_FIRMWARE_OK;
    }
    if (!is_runnable(device, &record, other, choice)) {
        return HG_FIRMWARE_ABSENT;
    }
    record.active = (uint8_t)other;
    return hg_boot_record_save(device->flash, &record);
}
