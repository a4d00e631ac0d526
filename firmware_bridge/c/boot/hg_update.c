#include "hg_update.h"

#include "hg_slot.h"

/* The slot that does not run. On trial it is the one to go back to, and nobody writes there. */
static unsigned target(const hg_update_t *update) {
    return 1u - update->record.active;
}

void hg_update_init(hg_update_t *update, const hg_device_t *device) {
    update->device = device;
    update->size_bytes = 0;
    update->next_offset = 0;
    hg_boot_record_load(device->flash, &update->record);
}

/* An image that was staged and is now replaced must not run half-written. */
static hg_firmware_status_t unstage(hg_update_t *update) {
    if (update->record.trial == HG_TRIAL_NONE) return HG_FIRMWARE_OK;
    update->record.trial = HG_TRIAL_NONE;
    return hg_boot_record_save(update->device->flash, &update->record);
}

hg_firmware_status_t hg_update_begin(hg_update_t *update, const uint8_t *manifest, size_t length,
                                     const uint8_t signature[HG_ED25519_SIGNATURE_BYTES]) {
    hg_manifest_t accepted;
    if (update->record.trial == HG_TRIAL_RUNS) return HG_FIRMWARE_ON_TRIAL;
    hg_firmware_status_t status = hg_manifest_accept(&accepted, update->device, update->record.lowest_counter,
                                                     manifest, length, signature);
    if (status == HG_FIRMWARE_OK) status = unstage(update);
    if (status != HG_FIRMWARE_OK) return status;
    update->size_bytes = 0;
    status = hg_slot_begin(update->device->flash, target(update), manifest, length, signature, accepted.size_bytes,
                           &update->next_offset);
    if (status == HG_FIRMWARE_OK) update->size_bytes = accepted.size_bytes;
    return status;
}

hg_firmware_status_t hg_update_chunk(hg_update_t *update, uint32_t offset, const uint8_t *data, size_t length) {
    if (update->size_bytes == 0) return HG_FIRMWARE_NOT_BEGUN;
    uint32_t left = update->size_bytes - update->next_offset;
    if (offset != update->next_offset || length > left) return HG_FIRMWARE_OUT_OF_PLACE;
    if (length % HG_FLASH_UNIT != 0 && length != left) return HG_FIRMWARE_OUT_OF_PLACE;
    hg_firmware_status_t status =
        hg_slot_write(update->device->flash, target(update), offset, data, length, update->size_bytes);
    if (status == HG_FIRMWARE_OK) update->next_offset += (uint32_t)length;
    else update->size_bytes = 0; /* what is in flash now is anyone's guess: begin again, at the last whole sector */
    return status;
}

hg_firmware_status_t hg_update_end(hg_update_t *update) {
    hg_slot_head_t head;
    if (update->size_bytes == 0) return HG_FIRMWARE_NOT_BEGUN;
    if (update->next_offset != update->size_bytes) return HG_FIRMWARE_OUT_OF_PLACE;
    update->size_bytes = 0;
    hg_firmware_status_t status =
        hg_slot_verify(update->device, target(update), update->record.lowest_counter, &head);
    if (status != HG_FIRMWARE_OK) {
        hg_slot_forget(update->device->flash, target(update));
        return status;
    }
    update->record.trial = HG_TRIAL_STAGED;
    update->record.attempts_left = HG_TRIAL_ATTEMPTS;
    return hg_boot_record_save(update->device->flash, &update->record);
}

hg_firmware_status_t hg_update_confirm(hg_update_t *update) {
    hg_slot_head_t head;
    hg_boot_record_t *record = &update->record;
    if (record->trial != HG_TRIAL_RUNS) return HG_FIRMWARE_OK; /* confirmed before, and asked again */
    hg_firmware_status_t status = hg_slot_verify(update->device, target(update), record->lowest_counter, &head);
    if (status != HG_FIRMWARE_OK) return status;
    record->active = (uint8_t)target(update);
    record->trial = HG_TRIAL_NONE;
    record->last_end = HG_TRIAL_CONFIRMED;
    record->lowest_counter = head.manifest.counter; /* verified to be no lower than before */
    return hg_boot_record_save(update->device->flash, record);
}
