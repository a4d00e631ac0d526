#include "hg_updater.h"

#include "hg_slot.h"

/* The slot that updates go to. On trial it is the one that runs, and takes none. */
static unsigned target(const hg_updater_t *updater)
{
    return 1u - updater->record.active;
}

void hg_updater_init(hg_updater_t *updater, const hg_bootable_t *device)
{
    updater->device = device;
    updater->size_bytes = 0;
    updater->next_offset = 0;
    hg_boot_record_load(device->flash, &updater->record);
}

/* An image that was staged and is now replaced must not run half-written. */
static hg_firmware_status_t unstage(hg_updater_t *updater)
{
    if (updater->record.trial == HG_TRIAL_NONE) {
        return HG_FIRMWARE_OK;
    }
    updater->record.trial = HG_TRIAL_NONE;
    return hg_boot_record_save(updater->device->flash, &updater->record);
}

hg_firmware_status_t hg_updater_begin(hg_updater_t *updater, const uint8_t *manifest, size_t length,
                                      const uint8_t signature[HG_ED25519_SIGNATURE_BYTES])
{
    hg_manifest_t accepted;
    if (updater->record.trial == HG_TRIAL_RUNS) {
        return HG_FIRMWARE_ON_TRIAL;
    }
    hg_firmware_status_t status =
        hg_manifest_accept(&accepted, updater->device, updater->record.lowest_counter, manifest, length, signature);
    if (status == HG_FIRMWARE_OK) {
        status = unstage(updater);
    }
    if (status != HG_FIRMWARE_OK) {
        return status;
    }
    updater->size_bytes = 0;
    status = hg_slot_begin(updater->device->flash, target(updater), manifest, length, signature, accepted.size_bytes,
                           &updater->next_offset);
    if (status == HG_FIRMWARE_OK) {
        updater->size_bytes = accepted.size_bytes;
    }
    return status;
}

hg_firmware_status_t hg_updater_chunk(hg_updater_t *updater, uint32_t offset, const uint8_t *data, size_t length)
{
    if (updater->size_bytes == 0) {
        return HG_FIRMWARE_NOT_BEGUN;
    }
    uint32_t left = updater->size_bytes - updater->next_offset;
    if (offset != updater->next_offset || length > left) {
        return HG_FIRMWARE_OUT_OF_PLACE;
    }
    if (length % HG_FLASH_UNIT != 0 && length != left) {
        return HG_FIRMWARE_OUT_OF_PLACE;
    }
    hg_firmware_status_t status =
        hg_slot_write(updater->device->flash, target(updater), offset, data, length, updater->size_bytes);
    if (status == HG_FIRMWARE_OK) {
        updater->next_offset += (uint32_t)length;
    } else {
        updater->size_bytes = 0; /* what is in flash now is anyone's guess: begin again, at the last whole sector */
    }
    return status;
}

hg_firmware_status_t hg_updater_end(hg_updater_t *updater)
{
    hg_slot_head_t head;
    if (updater->record.trial == HG_TRIAL_STAGED) {
        return HG_FIRMWARE_OK; /* ended before, and asked again */
    }
    if (updater->size_bytes == 0) {
        return HG_FIRMWARE_NOT_BEGUN;
    }
    if (updater->next_offset != updater->size_bytes) {
        return HG_FIRMWARE_OUT_OF_PLACE;
    }
    updater->size_bytes = 0;
    hg_firmware_status_t status =
        hg_slot_verify(updater->device, target(updater), updater->record.lowest_counter, &head);
    if (status != HG_FIRMWARE_OK) {
        hg_slot_forget(updater->device->flash, target(updater));
        return status;
    }
    updater->record.trial = HG_TRIAL_STAGED;
    updater->record.attempts_left = HG_TRIAL_ATTEMPTS;
    return hg_boot_record_save(updater->device->flash, &updater->record);
}

hg_firmware_status_t hg_updater_confirm(hg_updater_t *updater)
{
    hg_slot_head_t head;
    hg_boot_record_t *record = &updater->record;
    if (record->trial != HG_TRIAL_RUNS) {
        return HG_FIRMWARE_OK; /* confirmed before, and asked again */
    }
    hg_firmware_status_t status = hg_slot_verify(updater->device, target(updater), record->lowest_counter, &head);
    if (status != HG_FIRMWARE_OK) {
        return status;
    }
    record->active = (uint8_t)target(updater);
    record->trial = HG_TRIAL_NONE;
    record->last_end = HG_TRIAL_CONFIRMED;
    record->lowest_counter = head.manifest.counter; /* verified to be no lower than before */
    return hg_boot_record_save(updater->device->flash, record);
}
