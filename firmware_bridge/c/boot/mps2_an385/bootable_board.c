#include "bootable_board.h"

#include "firmware_keys.h" /* made by the build from the builder's public keys */

#define FLASH_ADDRESS 0x21000000u
#define SECTOR_BYTES 0x1000u
#define CLOCK_HZ 25000000u

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define WATCHDOG_LOAD REGISTER(0x40008000u)
#define WATCHDOG_CONTROL REGISTER(0x40008008u)
#define WATCHDOG_LOCK REGISTER(0x40008c00u)
#define UNLOCKED 0x1acce551u
#define COUNT_AND_RESET 3u
#define RESET_DELAY_MS 500u

static uint8_t *at(uint32_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

static bool flash_read(void *user, uint32_t address, uint8_t *data, size_t length)
{
    (void)user;
    for (size_t i = 0; i < length; i++) {
        data[i] = at(address)[i];
    }
    return true;
}

static bool flash_write(void *user, uint32_t address, const uint8_t *data, size_t length)
{
    (void)user;
    for (size_t i = 0; i < length; i++) {
        at(address)[i] &= data[i]; /* NOR flash: a write only ever clears bits */
    }
    return true;
}

static bool flash_erase(void *user, uint32_t address)
{
    (void)user;
    for (size_t i = 0; i < SECTOR_BYTES; i++) {
        at(address)[i] = 0xff;
    }
    return true;
}

static const hg_flash_t FLASH = {
    .read = flash_read,
    .write = flash_write,
    .erase = flash_erase,
    .sector_bytes = SECTOR_BYTES,
    .record_address = {FLASH_ADDRESS, FLASH_ADDRESS + SECTOR_BYTES},
    .slot_address = {FLASH_ADDRESS + 0x10000u, FLASH_ADDRESS + 0x60000u},
    .slot_bytes = SECTOR_BYTES + BOARD_FIRMWARE_BYTES,
};

const hg_bootable_t bootable_device = {
    .flash = &FLASH,
    .board = BOARD_NAME,
    .keys = FIRMWARE_KEYS,
    .key_count = sizeof FIRMWARE_KEYS / sizeof FIRMWARE_KEYS[0],
};

static void set_watchdog(uint32_t control)
{
    WATCHDOG_LOCK = UNLOCKED;
    WATCHDOG_CONTROL = control;
    WATCHDOG_LOCK = 0;
}

/* The first time the watchdog has counted down is a warning (NMI), the second the reset. */
static void reset_in(uint32_t delay_ms)
{
    WATCHDOG_LOCK = UNLOCKED;
    WATCHDOG_LOAD = CLOCK_HZ / 2000u * delay_ms;
    set_watchdog(COUNT_AND_RESET);
}

void bootable_start_watchdog(void)
{
    reset_in(BOARD_TRIAL_S * 1000u);
}

void bootable_stop_watchdog(void)
{
    set_watchdog(0);
}

void bootable_reset_soon(void)
{
    reset_in(RESET_DELAY_MS);
}
