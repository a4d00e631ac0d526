/* Firmware that starts and does nothing: it never speaks, and never feeds or stops the watchdog. */
#include <stdint.h>

static void hang(void)
{
    for (;;) {
    }
}

typedef void (*vector_t)(void);
__attribute__((section(".vectors"), used)) static const vector_t vectors[] = {
    (vector_t)(uintptr_t)0x20400000u, hang, hang, hang,
};
