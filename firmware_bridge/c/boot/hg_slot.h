/* One of the two places for firmware: a head, marks of progress, an image.
 *
 *     offset          what
 *     0               the head of a firmware file: HGFIRM, version, length of the manifest, manifest, signature
 *     256             one unit per sector of the image: erased, or all zeros once that sector is whole
 *     sector_bytes    the image
 *
 * Sectors of the image are erased as they are reached, so that no step takes long. An update goes on at the first sector
 * without a mark; marks that no orderly update could have left (a torn one, one behind a gap) make it begin anew.
 */
#ifndef HG_SLOT_H
#define HG_SLOT_H

#include "hg_manifest.h"

#define HG_SLOT_HEAD_BYTES 256u

/* The head as it is in flash; `manifest` points into `bytes`. */
typedef struct {
    uint8_t bytes[HG_SLOT_HEAD_BYTES];
    hg_manifest_t manifest;
} hg_slot_head_t;

/* The largest image: what fits into the slot, and what there are marks for; 0 for flash that cannot be used. */
uint32_t hg_slot_capacity(const hg_flash_t *flash);

/* Whether the boot loader may run it: head, board, counter, signature and the image's digest. */
hg_firmware_status_t hg_slot_verify(const hg_bootable_t *device, unsigned slot, uint32_t lowest_counter,
                                    hg_slot_head_t *head);

/* Make ready for this image, whose manifest was accepted. `next_offset`: how much of it is there already. */
hg_firmware_status_t hg_slot_begin(const hg_flash_t *flash, unsigned slot, const uint8_t *manifest, size_t length,
                                   const uint8_t *signature, uint32_t size_bytes, uint32_t *next_offset);

/* Write what comes at `offset`: all before it is there, and it ends on a unit or at the end of the image. */
hg_firmware_status_t hg_slot_write(const hg_flash_t *flash, unsigned slot, uint32_t offset, const uint8_t *data,
                                   size_t length, uint32_t size_bytes);

/* Take the head away, so that the next update begins anew. */
void hg_slot_forget(const hg_flash_t *flash, unsigned slot);

#endif
