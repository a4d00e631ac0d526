/* The example application: five sensors and four commands behind a Headgate link. The same on every board. */
#ifndef APP_H
#define APP_H

#include "headgate_link.h"

#ifndef APP_VERSION
#define APP_VERSION "1.0.0"
#endif
#define APP_DEFAULT_INTERVAL_MS 1000
#define APP_MIN_INTERVAL_MS 10
#define APP_MAX_INTERVAL_MS 60000

typedef struct {
    hg_device_t device;
    hg_port_t port;
    uint8_t boot_id[HG_BOOT_ID_BYTES];
    uint32_t measured_ms;
    uint32_t interval_ms;
    uint32_t noise;              /* state of the simulated sensors */
    int32_t temperature;         /* hundredths of a degree */
    int32_t humidity;            /* tenths of a percent */
    int32_t count;               /* what `count` added up */
    int32_t cycle;               /* measurements since the boot */
    bool led, was_up;
    hg_link_t link;
} app_t;

hg_status_t app_init(app_t *app, uint32_t interval_ms);

/* One turn of the main loop. Returns true if the processor may sleep until the next byte or tick. */
bool app_step(app_t *app);

#endif
