/* ARM MPS2 with the AN385 image (Cortex-M3), as QEMU has it: -M mps2-an385. */
#include "app.h"
#include "board.h"
#include "freestanding.h"

#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u)          /* 1: transmit buffer full, 2: receive buffer full */
#define UART_CONTROL REGISTER(0x40004008u)        /* 1: transmit, 2: receive, 8: interrupt on receive */
#define UART_CLEAR REGISTER(0x4000400cu)          /* 2: receive */
#define UART_DIVIDER REGISTER(0x40004010u)
#define FPGA_LED REGISTER(0x40028000u)
#define FPGA_COUNTER REGISTER(0x40028018u)        /* counts up; with the prescaler below, microseconds */
#define FPGA_PRESCALE REGISTER(0x4002801cu)
#define SYSTICK_CONTROL REGISTER(0xe000e010u)
#define SYSTICK_RELOAD REGISTER(0xe000e014u)
#define NVIC_ENABLE REGISTER(0xe000e100u)
#define CLOCK_HZ 25000000u
#define BAUD 115200u
#define TICK_HZ 100u

static ring_t received;
static uint32_t last_us, ms, rest_us;

static uint32_t microseconds(void)
{
    return FPGA_COUNTER;
}

const char *board_device_id(void)
{
    return "mps2-an385";
}

void board_boot_id(uint8_t boot_id[HG_BOOT_ID_BYTES])
{
    mix_boot_id(boot_id, microseconds);
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

/* The counter wraps after 71 minutes; milliseconds are added up, so that they do not. */
uint32_t board_now_ms(void)
{
    uint32_t now = microseconds();
    rest_us += now - last_us;
    last_us = now;
    ms += rest_us / 1000u;
    rest_us %= 1000u;
    return ms;
}

size_t board_write(const uint8_t *data, size_t len)
{
    size_t written = 0;
    while (written < len && !(UART_STATE & 1u)) {
        UART_DATA = data[written++];
    }
    return written;
}

size_t board_read(uint8_t *data, size_t size)
{
    return ring_take(&received, data, size);
}

void board_set_led(bool is_on)
{
    FPGA_LED = is_on ? 1u : 0u;
}

static void on_uart_receive(void)
{
    UART_CLEAR = 2u;      /* before draining: a byte that comes in between must raise the interrupt again */
    while (UART_STATE & 2u) {
        ring_put(&received, (uint8_t)UART_DATA);
    }
}

static void on_tick(void)
{
}

int main(void)
{
    static app_t app;
    FPGA_PRESCALE = CLOCK_HZ / 1000000u - 1u;
    UART_DIVIDER = CLOCK_HZ / BAUD;
    UART_CONTROL = 1u | 2u | 8u;
    NVIC_ENABLE = 1u;
    SYSTICK_RELOAD = CLOCK_HZ / TICK_HZ - 1u;
    SYSTICK_CONTROL = 7u;
    last_us = microseconds();
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
__attribute__((section(".vectors"), used)) static const vector_t vectors[] = {
    (vector_t)(uintptr_t)stack_top, reset, halt, halt, halt, halt, halt, NULL, NULL, NULL, NULL, halt, halt, NULL, halt,
    on_tick,
    on_uart_receive,      /* interrupt 0 */
};
