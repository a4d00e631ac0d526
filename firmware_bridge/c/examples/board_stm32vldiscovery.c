/* STM32VLDISCOVERY (STM32F100RB, Cortex-M3, 8 KiB of RAM), also in QEMU: -M stm32vldiscovery. The link is USART1 on
 * PA9 and PA10, the LED is PC9. */
#include "app.h"
#include "board.h"
#include "freestanding.h"

#define RCC_CONTROL REGISTER(0x40021000u)         /* 0x01000000: multiplier on, 0x02000000: it is ready */
#define RCC_CONFIGURATION REGISTER(0x40021004u)   /* 0x00100000: internal oscillator / 2 * 6, 2: run from that */
#define RCC_APB2ENR REGISTER(0x40021018u)         /* 4: port A, 16: port C, 0x4000: USART1 */
#define GPIOA_CRH REGISTER(0x40010804u)
#define GPIOC_CRH REGISTER(0x40011004u)
#define GPIOC_BSRR REGISTER(0x40011010u)
#define USART_STATE REGISTER(0x40013800u)         /* 0x20: a byte is there, 0x80: ready for a byte */
#define USART_DATA REGISTER(0x40013804u)
#define USART_DIVIDER REGISTER(0x40013808u)
#define USART_CONTROL REGISTER(0x4001380cu)       /* 4: receive, 8: transmit, 0x20: interrupt on receive, 0x2000: on */
#define SYSTICK_CONTROL REGISTER(0xe000e010u)
#define SYSTICK_RELOAD REGISTER(0xe000e014u)
#define SYSTICK_VALUE REGISTER(0xe000e018u)
#define NVIC_ENABLE_1 REGISTER(0xe000e104u)       /* interrupts 32 to 63; USART1 is 37 */
#define CLOCK_HZ 24000000u
#define BAUD 115200u
#define TICK_MS 10u

static ring_t received;
static volatile uint32_t ticks;

static uint32_t fast_counter(void)
{
    return SYSTICK_VALUE;
}

const char *board_device_id(void)
{
    return "stm32vldiscovery";
}

void board_boot_id(uint8_t boot_id[HG_BOOT_ID_BYTES])
{
    mix_boot_id(boot_id, fast_counter);
}

#ifdef APP_KEY
const uint8_t *board_key(void)
{
    static const uint8_t key[HG_KEY_BYTES] = {APP_KEY};
    return key;
}
#else
const uint8_t *board_key(void)
{
    return NULL;
}
#endif

uint32_t board_now_ms(void)
{
    return ticks * TICK_MS;
}

size_t board_write(const uint8_t *data, size_t len)
{
    size_t written = 0;
    while (written < len && (USART_STATE & 0x80u)) {
        USART_DATA = data[written++];
    }
    return written;
}

size_t board_read(uint8_t *data, size_t size)
{
    return ring_take(&received, data, size);
}

void board_set_led(bool is_on)
{
    GPIOC_BSRR = is_on ? 1u << 9 : 1u << 25;
}

static void on_usart(void)
{
    while (USART_STATE & 0x20u) {      /* reading the byte clears the interrupt */
        ring_put(&received, (uint8_t)USART_DATA);
    }
}

static void on_tick(void)
{
    ticks++;
}

/* From 8 to 24 MHz. QEMU runs at 24 MHz from the start and has no such registers, so the wait is bounded. */
static void raise_clock(void)
{
    RCC_CONFIGURATION = 0x00100000u;
    RCC_CONTROL |= 0x01000000u;
    for (uint32_t turns = 0; turns < 10000u && !(RCC_CONTROL & 0x02000000u); turns++) {
    }
    RCC_CONFIGURATION |= 2u;
}

int main(void)
{
    static app_t app;
    raise_clock();
    RCC_APB2ENR |= 0x4u | 0x10u | 0x4000u;
    GPIOA_CRH = (GPIOA_CRH & ~0xff0u) | 0x4b0u;   /* PA9 is driven by the USART, PA10 is an input */
    GPIOC_CRH = (GPIOC_CRH & ~0xf0u) | 0x20u;
    USART_DIVIDER = CLOCK_HZ / BAUD;
    USART_CONTROL = 0x2000u | 0x20u | 0x8u | 0x4u;
    NVIC_ENABLE_1 = 1u << 5;
    SYSTICK_RELOAD = CLOCK_HZ / 1000u * TICK_MS - 1u;
    SYSTICK_CONTROL = 7u;
    if (app_init(&app, APP_DEFAULT_INTERVAL_MS) != HG_OK) {
        halt();
    }
    for (;;) {
        if (app_step(&app)) {
            sleep_until_interrupt(&received);
        }
    }
}

extern uint32_t stack_top[];
typedef void (*vector_t)(void);
__attribute__((section(".vectors"), used)) static const vector_t vectors[16 + 38] = {
    (vector_t)(uintptr_t)stack_top, reset, halt, halt, halt, halt, halt, NULL, NULL, NULL, NULL, halt, halt, NULL, halt,
    on_tick,
    [16 + 37] = on_usart,
};
