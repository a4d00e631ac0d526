/* The signed manifest of a firmware image: docs/wire-formats.md, "Firmware". */
#ifndef HG_MANIFEST_H
#define HG_MANIFEST_H

#include "hg_firmware.h"
#include "hg_sha512.h"

#define HG_MANIFEST_MAX_BYTES 146u
#define HG_MANIFEST_MAX_NAME_BYTES 32u
#define HG_MANIFEST_MAX_IMAGE_BYTES (16u << 20)

/* Names and digest point into the bytes that were parsed. Names are not terminated. */
typedef struct {
    const uint8_t *board, *version, *sha512;
    size_t board_length, version_length;
    uint32_t counter, size_bytes;
} hg_manifest_t;

/* Takes the one deterministic encoding and no other. */
hg_firmware_status_t hg_manifest_parse(hg_manifest_t *manifest, const uint8_t *data, size_t length);

/* Parse it, and ask whether this device may take its image: board, counter, size, then the signature. */
hg_firmware_status_t hg_manifest_accept(hg_manifest_t *manifest, const hg_bootable_t *device, uint32_t lowest_counter,
                                        const uint8_t *data, size_t length,
                                        const uint8_t signature[HG_ED25519_SIGNATURE_BYTES]);

#endif
