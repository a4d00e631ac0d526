#include "app.h"

#include "board.h"

enum { TEMPERATURE, HUMIDITY, SUPPLY, LED, CYCLE };
static const hg_sensor_t sensors[] = {
    {"temperature", "temperature", "Cel", -2},
    {"humidity", "relative humidity", "%", -1},
    {"supply", "voltage", "V", -3},
    {"led", "state", "", 0},
    {"cycle", "count", "", 0},      /* of measurements since the boot: readers see gaps and duplicates */
};

enum { SET_LED, SET_INTERVAL, COUNT, SAY };
static const hg_command_t commands[] = {
    {"led", "0 or 1"},
    {"interval_ms", "10 to 60000"},
    {"count", "number to add"},
    {"say", "text for the log"},
};

/* ---- Simulated sensors: values that wander within believable bounds ---- */

static int32_t wander(app_t *app, int32_t value, int32_t step, int32_t least, int32_t most)
{
    app->noise = app->noise * 1664525u + 1013904223u;
    int32_t next = value + (int32_t)(app->noise >> 16) % (2 * step + 1) - step;
    return next < least ? least : next > most ? most : next;
}

static void measure(app_t *app)
{
    app->temperature = wander(app, app->temperature, 8, 1500, 3200);
    app->humidity = wander(app, app->humidity, 4, 250, 750);
    const hg_sample_t samples[] = {
        {TEMPERATURE, app->temperature},
        {HUMIDITY, app->humidity},
        {SUPPLY, wander(app, 3300, 6, 3200, 3400)},
        {LED, app->led},
        {CYCLE, app->cycle++},
    };
    (void)hg_link_record(&app->link, samples, sizeof samples / sizeof *samples);
}

/* ---- Commands ---- */

static hg_result_t set_led(app_t *app, const hg_value_t *argument)
{
    if (argument->kind != HG_NUMBER || argument->number < 0 || argument->number > 1) {
        return HG_REFUSED_ARGUMENT;
    }
    app->led = argument->number != 0;
    board_set_led(app->led);
    (void)hg_link_log(&app->link, HG_INFO, app->led ? "led on" : "led off");
    return HG_DONE;
}

static hg_result_t set_interval(app_t *app, const hg_value_t *argument)
{
    if (argument->kind != HG_NUMBER || argument->number < APP_MIN_INTERVAL_MS
        || argument->number > APP_MAX_INTERVAL_MS) {
        return HG_REFUSED_ARGUMENT;
    }
    app->interval_ms = (uint32_t)argument->number;
    return HG_DONE;
}

/* Adds up, so that a command executed twice would show. */
static hg_result_t count(app_t *app, const hg_value_t *argument, hg_value_t *result)
{
    if (argument->kind != HG_NUMBER || argument->number < -1000 || argument->number > 1000) {
        return HG_REFUSED_ARGUMENT;
    }
    app->count += argument->number;
    result->kind = HG_NUMBER;
    result->number = app->count;
    return HG_DONE;
}

static hg_result_t say(app_t *app, const hg_value_t *argument)
{
    char text[65];
    size_t len = argument->kind == HG_TEXT ? argument->text.len : sizeof text;
    if (len >= sizeof text) {
        return HG_REFUSED_ARGUMENT;
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)argument->text.data[i];
    }
    text[len] = '\0';
    return hg_link_log(&app->link, HG_INFO, text) == HG_OK ? HG_DONE : HG_FAILED;
}

static hg_result_t execute(void *user, uint8_t command, const hg_value_t *argument, hg_value_t *result)
{
    app_t *app = user;
    switch (command) {
    case SET_LED:
        return set_led(app, argument);
    case SET_INTERVAL:
        return set_interval(app, argument);
    case COUNT:
        return count(app, argument, result);
    default:
        return say(app, argument);
    }
}

/* ---- The board, as the link sees it ---- */

static size_t write_bytes(void *user, const uint8_t *data, size_t len)
{
    (void)user;
    return board_write(data, len);
}

static uint32_t now_ms(void *user)
{
    (void)user;
    return board_now_ms();
}

hg_status_t app_init(app_t *app, uint32_t interval_ms)
{
    board_boot_id(app->boot_id);
    app->device.device_id = board_device_id();
    app->device.firmware = APP_VERSION;
    app->device.boot_id = app->boot_id;
    app->device.sensors = sensors;
    app->device.sensor_count = sizeof sensors / sizeof *sensors;
    app->device.commands = commands;
    app->device.command_count = sizeof commands / sizeof *commands;
#if HG_WITH_AUTH
    app->device.key = board_key();
#endif
    app->port.user = app;
    app->port.write = write_bytes;
    app->port.now_ms = now_ms;
    app->port.execute = execute;
#if HG_WITH_UPDATE
    app->port.update = &board_update;
#endif
    app->noise = app->boot_id[0];
    app->temperature = 2150;
    app->humidity = 450;
    app->count = 0;
    app->cycle = 0;
    app->led = false;
    app->was_up = false;
    app->interval_ms = interval_ms;
    app->measured_ms = board_now_ms();
    return hg_link_init(&app->link, &app->device, &app->port);
}

bool app_step(app_t *app)
{
    uint8_t bytes[64];
    size_t received = board_read(bytes, sizeof bytes);
    hg_link_receive(&app->link, bytes, received);
    uint32_t late_ms = board_now_ms() - app->measured_ms;
    if (late_ms >= app->interval_ms) {
        app->measured_ms += late_ms - late_ms % app->interval_ms;      /* what was slept through is not made up */
        measure(app);
    }
    if (hg_link_is_up(&app->link) != app->was_up) {
        app->was_up = !app->was_up;
        (void)hg_link_log(&app->link, HG_INFO, "link up, firmware " APP_VERSION);
    }
    hg_link_poll(&app->link);
    return received == 0 && hg_link_is_idle(&app->link);
}
