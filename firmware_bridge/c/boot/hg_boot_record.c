#include "hg_boot_record.h"

#define CHECKED_BYTES 28u

static const uint8_t MAGIC[4] = {'H', 'G', 'B', 'R'};

static uint32_t crc32(const uint8_t *data, size_t length)
{
    uint32_t crc = ~0u;
    while (length-- > 0) {
        crc ^= *data++;
        for (unsigned i = 0; i < 8; i++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static void store(uint8_t *bytes, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

static uint32_t fetch(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void encode(uint8_t bytes[HG_BOOT_RECORD_BYTES], const hg_boot_record_t *record)
{
    for (size_t i = 0; i < HG_BOOT_RECORD_BYTES; i++) {
        bytes[i] = i < sizeof MAGIC ? MAGIC[i] : 0;
    }
    store(bytes + 4, record->sequence);
    bytes[8] = record->active;
    bytes[9] = record->trial;
    bytes[10] = record->attempts_left;
    bytes[11] = record->last_end;
    store(bytes + 12, record->lowest_counter);
    store(bytes + CHECKED_BYTES, crc32(bytes, CHECKED_BYTES));
}

static bool decode(hg_boot_record_t *record, const uint8_t bytes[HG_BOOT_RECORD_BYTES])
{
    if (fetch(bytes) != fetch(MAGIC) || fetch(bytes + CHECKED_BYTES) != crc32(bytes, CHECKED_BYTES)) {
        return false;
    }
    record->sequence = fetch(bytes + 4);
    record->active = bytes[8];
    record->trial = bytes[9];
    record->attempts_left = bytes[10];
    record->last_end = bytes[11];
    record->lowest_counter = fetch(bytes + 12);
    return record->active <= 1 && record->trial <= HG_TRIAL_RUNS;
}

static bool read_place(const hg_flash_t *flash, unsigned place, hg_boot_record_t *record)
{
    uint8_t bytes[HG_BOOT_RECORD_BYTES];
    return flash->read(flash->user, flash->record_address[place], bytes, sizeof bytes) && decode(record, bytes);
}

void hg_boot_record_load(const hg_flash_t *flash, hg_boot_record_t *record)
{
    hg_boot_record_t other;
    bool is_found = read_place(flash, 0, record);
    if (!is_found) {
        *record = (hg_boot_record_t){0};
    }
    if (read_place(flash, 1, &other) && (!is_found || other.sequence > record->sequence)) {
        *record = other;
    }
}

hg_firmware_status_t hg_boot_record_save(const hg_flash_t *flash, hg_boot_record_t *record)
{
    uint8_t bytes[HG_BOOT_RECORD_BYTES];
    hg_boot_record_t written;
    record->sequence++;
    encode(bytes, record);
    unsigned place = record->sequence % 2u;
    bool is_written = flash->erase(flash->user, flash->record_address[place])
        && flash->write(flash->user, flash->record_address[place], bytes, sizeof bytes)
        && read_place(flash, place, &written) && written.sequence == record->sequence;
    if (is_written) {
        return HG_FIRMWARE_OK;
    }
    hg_boot_record_load(flash, record); /* else the next save would overwrite the record that counts */
    return HG_FIRMWARE_FLASH_FAILED;
}
