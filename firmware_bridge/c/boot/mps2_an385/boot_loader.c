/* The boot loader of the mps2-an385: choose, copy, jump. It has no communication. */
#include "../hg_boot.h"
#include "bootable_board.h"

#define VTOR (*(volatile uint32_t *)0xe000ed08u)

extern uint32_t ram_end; /* of the linker's script */

void boot_loader_start(void) __attribute__((noreturn));
static void stop(void) __attribute__((noreturn));

__attribute__((section(".vectors"), used)) static void (*const VECTORS[])(void) = {
    (void (*)(void))(uintptr_t)&ram_end,
    boot_loader_start,
    stop,
    stop,
};

static void stop(void)
{
    for (;;) {
        __asm__ volatile("wfi");
    }
}

static void copy_firmware(const hg_boot_choice_t *choice)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)choice->image_address;
    uint8_t *to = (uint8_t *)BOARD_FIRMWARE_ADDRESS;
    for (uint32_t i = 0; i < choice->size_bytes; i++) {
        to[i] = from[i];
    }
}

static void jump(void)
{
    const uint32_t *vectors = (const uint32_t *)BOARD_FIRMWARE_ADDRESS;
    VTOR = BOARD_FIRMWARE_ADDRESS;
    __asm__ volatile("msr msp, %0\n\tbx %1" : : "r"(vectors[0]), "r"(vectors[1]));
}

void boot_loader_start(void)
{
    hg_boot_choice_t choice;
    if (hg_boot_choose(&bootable_device, &choice) == HG_FIRMWARE_OK) {
        copy_firmware(&choice);
        if (choice.is_trial) {
            bootable_start_watchdog();
        }
        jump();
    }
    stop(); /* nothing may run: the device waits for someone with a programmer */
}

/* What the compiler may call for copies and fills. */
void *memcpy(void *to, const void *from, size_t length);
void *memset(void *to, int value, size_t length);

void *memcpy(void *to, const void *from, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

void *memset(void *to, int value, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        ((uint8_t *)to)[i] = (uint8_t)value;
    }
    return to;
}
