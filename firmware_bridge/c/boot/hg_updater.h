/* The running firmware's side of an update: take an image, stage it, and confirm itself after a trial.
 *
 *     begin   manifest and signature are checked before anything is erased; the same manifest again goes on
 *     chunk   the image in order; every length but the last a multiple of HG_FLASH_UNIT
 *     end     the whole image is read back and its digest checked; the next reset runs it on trial
 *     confirm the firmware on trial is kept, and its counter is the lowest that runs from now on
 *
 * Every call gives HG_FIRMWARE_OK or why not; after a refusal the device is as it was. Calls may take as long as the
 * flash takes to erase a sector; `begin` also checks a signature and `end` hashes the image.
 */
#ifndef HG_UPDATER_H
#define HG_UPDATER_H

#include "hg_boot_record.h"
#include "hg_firmware.h"

typedef struct {
    const hg_bootable_t *device;
    hg_boot_record_t record;
    uint32_t size_bytes;  /* of the image that is coming; 0 while none is */
    uint32_t next_offset; /* how much of it is there */
} hg_updater_t;

void hg_updater_init(hg_updater_t *updater, const hg_bootable_t *device);
hg_firmware_status_t hg_updater_begin(hg_updater_t *updater, const uint8_t *manifest, size_t length,
                                      const uint8_t signature[HG_ED25519_SIGNATURE_BYTES]);
hg_firmware_status_t hg_updater_chunk(hg_updater_t *updater, uint32_t offset, const uint8_t *data, size_t length);
hg_firmware_status_t hg_updater_end(hg_updater_t *updater);
hg_firmware_status_t hg_updater_confirm(hg_updater_t *updater);

#endif
