/* Signed firmware on a device: what the board brings, and what can go wrong.
 *
 * Flash holds two boot records and two slots:
 *
 *     record 0 | record 1 | slot 0: head and marks, image … | slot 1: head and marks, image …
 *
 * The firmware that runs writes an update into the slot it does not run from (hg_updater.h). At the next reset the boot
 * loader (hg_boot.h) runs that slot on trial, and goes back to the other one unless the new firmware confirms itself.
 * Both check signature, board, counter and digest themselves, so neither trusts the writer of the flash.
 *
 * Promises, whatever the moment at which the power fails:
 *   - the boot loader finds a whole, verified image, the old or the new one, and never runs any other;
 *   - an update goes on where it stopped, at most one sector earlier.
 *
 * Nothing here is called from interrupts, uses a heap, or has a global.
 */
#ifndef HG_FIRMWARE_H
#define HG_FIRMWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg_ed25519.h"

/* What flash programs at once, in bytes. Between two erasures each unit is written once. */
#ifndef HG_FLASH_UNIT
#define HG_FLASH_UNIT 8u
#endif
#if HG_FLASH_UNIT < 1 || HG_FLASH_UNIT > 32 || (HG_FLASH_UNIT & (HG_FLASH_UNIT - 1)) != 0
#error "HG_FLASH_UNIT: a power of two up to 32"
#endif

/* How often a new image may start before it has confirmed itself. */
#ifndef HG_TRIAL_ATTEMPTS
#define HG_TRIAL_ATTEMPTS 3u
#endif
#if HG_TRIAL_ATTEMPTS < 1 || HG_TRIAL_ATTEMPTS > 255
#error "HG_TRIAL_ATTEMPTS: 1 to 255"
#endif

/* Down to NOT_BEGUN, a refusal is the negative of the reason that the link's FW_STATUS gives. */
typedef enum {
    HG_FIRMWARE_OK = 0,
    HG_FIRMWARE_BAD_MANIFEST = -2,  /* not a manifest of a version known here */
    HG_FIRMWARE_BAD_SIGNATURE = -3, /* by none of the device's keys */
    HG_FIRMWARE_OTHER_BOARD = -4,
    HG_FIRMWARE_ROLLED_BACK = -5, /* the counter is lower than one that was confirmed here */
    HG_FIRMWARE_TOO_LARGE = -6,
    HG_FIRMWARE_BAD_DIGEST = -7, /* the image in flash is not the manifest's */
    HG_FIRMWARE_FLASH_FAILED = -8,
    HG_FIRMWARE_OUT_OF_PLACE = -9, /* not the next chunk, or not whole units; the update stays as it was */
    HG_FIRMWARE_NOT_BEGUN = -10,   /* a chunk or an end without an update under way */
    HG_FIRMWARE_ON_TRIAL = -11,    /* the running firmware must be confirmed before it can be updated */
    HG_FIRMWARE_ABSENT = -12       /* no firmware is there that may run */
} hg_firmware_status_t;

/* The board's flash. Addresses are the board's own; the library adds offsets and knows no others. */
typedef struct {
    void *user;
    bool (*read)(void *user, uint32_t address, uint8_t *data, size_t length);
    bool (*write)(void *user, uint32_t address, const uint8_t *data, size_t length); /* whole units, on erased ones */
    bool (*erase)(void *user, uint32_t address);                                     /* one sector, to all ones */
    uint32_t sector_bytes; /* 512 or more; see hg_slot.h for what it allows */
    uint32_t record_address[2];
    uint32_t slot_address[2];
    uint32_t slot_bytes; /* of each; a multiple of the sector */
} hg_flash_t;

/* What a device is, compiled into its boot loader and its firmware alike. */
typedef struct {
    const hg_flash_t *flash;
    const char *board; /* the one board name of manifests that it takes */
    const uint8_t (*keys)[HG_ED25519_KEY_BYTES]; /* trusted keys: the one in use and, if possible, an offline spare */
    size_t key_count;
} hg_bootable_t;

#endif
