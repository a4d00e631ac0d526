#include "hg_slot.h"

#define MANIFEST_AT 10u
#define ERASED 0xffu

static const uint8_t PREAMBLE[] = {'H', 'G', 'F', 'I', 'R', 'M', 0, 1, 0}; /* and one more byte of length */

typedef enum { MARK_ERASED, MARK_SET, MARK_TORN } mark_t;

static bool equal(const uint8_t *a, const uint8_t *b, size_t length)
{
    while (length > 0 && *a == *b) {
        a++;
        b++;
        length--;
    }
    return length == 0;
}

static void copy(uint8_t *to, const uint8_t *from, size_t length)
{
    while (length-- > 0) {
        *to++ = *from++;
    }
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t mark_address(const hg_flash_t *flash, unsigned slot, uint32_t sector)
{
    return flash->slot_address[slot] + HG_SLOT_HEAD_BYTES + sector * HG_FLASH_UNIT;
}

static uint32_t mark_count(const hg_flash_t *flash)
{
    if (flash->sector_bytes < 2u * HG_SLOT_HEAD_BYTES || flash->slot_bytes < flash->sector_bytes) {
        return 0;
    }
    return smaller((flash->sector_bytes - HG_SLOT_HEAD_BYTES) / HG_FLASH_UNIT,
                   flash->slot_bytes / flash->sector_bytes - 1u);
}

uint32_t hg_slot_capacity(const hg_flash_t *flash)
{
    return mark_count(flash) * flash->sector_bytes;
}

/* ---- reading ---- */

static bool digest_matches(const hg_flash_t *flash, unsigned slot, const hg_manifest_t *manifest)
{
    hg_sha512_t hash;
    uint8_t piece[HG_SHA512_BYTES]; /* of the image first, and the digest in the end */
    uint32_t address = flash->slot_address[slot] + flash->sector_bytes;
    hg_sha512_init(&hash);
    for (uint32_t left = manifest->size_bytes; left > 0;) {
        uint32_t length = smaller(left, sizeof piece);
        if (!flash->read(flash->user, address, piece, length)) {
            return false;
        }
        hg_sha512_update(&hash, piece, length);
        address += length;
        left -= length;
    }
    hg_sha512_final(&hash, piece);
    return equal(piece, manifest->sha512, sizeof piece);
}

hg_firmware_status_t hg_slot_verify(const hg_bootable_t *device, unsigned slot, uint32_t lowest_counter,
                                    hg_slot_head_t *head)
{
    const hg_flash_t *flash = device->flash;
    if (!flash->read(flash->user, flash->slot_address[slot], head->bytes, sizeof head->bytes)) {
        return HG_FIRMWARE_FLASH_FAILED;
    }
    size_t length = head->bytes[MANIFEST_AT - 1u];
    if (!equal(head->bytes, PREAMBLE, sizeof PREAMBLE) || length > HG_MANIFEST_MAX_BYTES) {
        return HG_FIRMWARE_ABSENT;
    }
    const uint8_t *manifest = head->bytes + MANIFEST_AT;
    hg_firmware_status_t status =
        hg_manifest_accept(&head->manifest, device, lowest_counter, manifest, length, manifest + length);
    if (status != HG_FIRMWARE_OK) {
        return status;
    }
    return digest_matches(flash, slot, &head->manifest) ? HG_FIRMWARE_OK : HG_FIRMWARE_BAD_DIGEST;
}

static mark_t read_mark(const hg_flash_t *flash, unsigned slot, uint32_t sector)
{
    uint8_t unit[HG_FLASH_UNIT], any = 0, all = ERASED;
    if (!flash->read(flash->user, mark_address(flash, slot, sector), unit, sizeof unit)) {
        return MARK_TORN;
    }
    for (size_t i = 0; i < sizeof unit; i++) {
        any |= unit[i];
        all &= unit[i];
    }
    return all == ERASED ? MARK_ERASED : any == 0 ? MARK_SET : MARK_TORN;
}

/* Sectors that are whole; false if the marks are not what an orderly update leaves. */
static bool count_marks(const hg_flash_t *flash, unsigned slot, uint32_t *whole)
{
    uint32_t count = mark_count(flash), sector = 0;
    while (sector < count && read_mark(flash, slot, sector) == MARK_SET) {
        sector++;
    }
    *whole = sector;
    while (sector < count && read_mark(flash, slot, sector) == MARK_ERASED) {
        sector++;
    }
    return sector == count;
}

/* ---- writing ---- */

static void build_head(uint8_t head[HG_SLOT_HEAD_BYTES], const uint8_t *manifest, size_t length,
                       const uint8_t *signature)
{
    for (size_t i = 0; i < HG_SLOT_HEAD_BYTES; i++) {
        head[i] = ERASED;
    }
    copy(head, PREAMBLE, sizeof PREAMBLE);
    head[MANIFEST_AT - 1u] = (uint8_t)length;
    copy(head + MANIFEST_AT, manifest, length);
    copy(head + MANIFEST_AT + length, signature, HG_ED25519_SIGNATURE_BYTES);
}

static bool holds_head(const hg_flash_t *flash, unsigned slot, const uint8_t head[HG_SLOT_HEAD_BYTES])
{
    uint8_t piece[HG_FLASH_UNIT];
    for (uint32_t offset = 0; offset < HG_SLOT_HEAD_BYTES; offset += HG_FLASH_UNIT) {
        if (!flash->read(flash->user, flash->slot_address[slot] + offset, piece, sizeof piece)) {
            return false;
        }
        if (!equal(piece, head + offset, sizeof piece)) {
            return false;
        }
    }
    return true;
}

hg_firmware_status_t hg_slot_begin(const hg_flash_t *flash, unsigned slot, const uint8_t *manifest, size_t length,
                                   const uint8_t *signature, uint32_t size_bytes, uint32_t *next_offset)
{
    uint8_t head[HG_SLOT_HEAD_BYTES];
    uint32_t whole = 0;
    build_head(head, manifest, length, signature);
    if (holds_head(flash, slot, head) && count_marks(flash, slot, &whole)) {
        *next_offset = smaller(whole * flash->sector_bytes, size_bytes);
        return HG_FIRMWARE_OK;
    }
    *next_offset = 0;
    bool is_written = flash->erase(flash->user, flash->slot_address[slot])
        && flash->write(flash->user, flash->slot_address[slot], head, sizeof head)
        && holds_head(flash, slot, head);
    return is_written ? HG_FIRMWARE_OK : HG_FIRMWARE_FLASH_FAILED;
}

void hg_slot_forget(const hg_flash_t *flash, unsigned slot)
{
    (void)flash->erase(flash->user, flash->slot_address[slot]); /* if it fails, the digest will fail again, too */
}

/* Whole units as they are, and what is left at the end of the image filled up. */
static bool write_units(const hg_flash_t *flash, uint32_t address, const uint8_t *data, uint32_t length)
{
    uint32_t rest = length % HG_FLASH_UNIT, whole = length - rest;
    uint8_t last[HG_FLASH_UNIT];
    if (whole > 0 && !flash->write(flash->user, address, data, whole)) {
        return false;
    }
    if (rest == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof last; i++) {
        last[i] = i < rest ? data[whole + i] : (uint8_t)ERASED;
    }
    return flash->write(flash->user, address + whole, last, sizeof last);
}

static bool set_mark(const hg_flash_t *flash, unsigned slot, uint32_t sector)
{
    const uint8_t zeros[HG_FLASH_UNIT] = {0};
    return flash->write(flash->user, mark_address(flash, slot, sector), zeros, sizeof zeros);
}

hg_firmware_status_t hg_slot_write(const hg_flash_t *flash, unsigned slot, uint32_t offset, const uint8_t *data,
                                   size_t length, uint32_t size_bytes)
{
    const uint32_t image = flash->slot_address[slot] + flash->sector_bytes;
    for (uint32_t left = (uint32_t)length; left > 0;) {
        uint32_t in_sector = offset % flash->sector_bytes;
        uint32_t piece = smaller(left, flash->sector_bytes - in_sector);
        if (in_sector == 0 && !flash->erase(flash->user, image + offset)) {
            return HG_FIRMWARE_FLASH_FAILED;
        }
        if (!write_units(flash, image + offset, data, piece)) {
            return HG_FIRMWARE_FLASH_FAILED;
        }
        offset += piece;
        data += piece;
        left -= piece;
        bool is_whole = offset % flash->sector_bytes == 0 || offset == size_bytes;
        if (is_whole && !set_mark(flash, slot, (offset - 1u) / flash->sector_bytes)) {
            return HG_FIRMWARE_FLASH_FAILED;
        }
    }
    return HG_FIRMWARE_OK;
}
