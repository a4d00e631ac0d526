/* The device of tests/vectors/link/conversations.json, for ctypes: tests/support/c_device.py. */
#include <stdlib.h>
#include <string.h>

#include "headgate_link.h"

#define OUTPUT_BYTES 65536

typedef struct {
    hg_link_t link;
    hg_device_t device;
    hg_port_t port;
    uint8_t boot_id[HG_BOOT_ID_BYTES], key[HG_KEY_BYTES];
    uint32_t now_ms, image_bytes;
    int32_t total;
    uint32_t executed;
    char echoed[64];
    size_t output_used, room;
    uint8_t output[OUTPUT_BYTES];
} test_device_t;

static const hg_sensor_t sensors[] = {{"temperature", "temperature", "Cel", -2}, {"\xc3\xa9tat", "state", "", 0}};
static const hg_command_t commands[] = {{"count", "number to add"}, {"echo", ""}};

static size_t write_bytes(void *user, const uint8_t *data, size_t len)
{
    test_device_t *test = user;
    size_t room = OUTPUT_BYTES - test->output_used;
    room = room < test->room ? room : test->room;
    len = len < room ? len : room;
    memcpy(test->output + test->output_used, data, len);
    test->output_used += len;
    test->room -= len;
    return len;
}

static uint32_t now_ms(void *user)
{
    return ((test_device_t *)user)->now_ms;
}

static hg_result_t execute(void *user, uint8_t command, const hg_value_t *argument, hg_value_t *result)
{
    test_device_t *test = user;
    test->executed++;
    if (command == 0 && argument->kind == HG_NUMBER && abs(argument->number) <= 1000) {
        test->total += argument->number;
        result->kind = HG_NUMBER;
        result->number = test->total;
        return HG_DONE;
    }
    if (command == 1 && argument->kind == HG_TEXT && argument->text.len <= sizeof test->echoed) {
        memcpy(test->echoed, argument->text.data, argument->text.len);
        result->kind = HG_TEXT;
        result->text.data = (const uint8_t *)test->echoed;
        result->text.len = argument->text.len;
        return HG_DONE;
    }
    return HG_REFUSED_ARGUMENT;
}

#if HG_WITH_UPDATE
static hg_fw_status_t begin(void *user, hg_bytes_t manifest, const uint8_t signature[64])
{
    bool is_known = manifest.len == 8 && memcmp(manifest.data, "manifest", 8) == 0 && signature[63] == 's';
    ((test_device_t *)user)->image_bytes = 0;
    return (hg_fw_status_t){0, is_known ? HG_FW_RECEIVING : HG_FW_REFUSED, is_known ? HG_FW_NONE : HG_FW_BAD_SIGNATURE};
}

static hg_fw_status_t chunk(void *user, uint32_t offset, hg_bytes_t data)
{
    test_device_t *test = user;
    bool is_next = offset == test->image_bytes;
    test->image_bytes += is_next ? (uint32_t)data.len : 0;
    return (hg_fw_status_t){test->image_bytes, HG_FW_RECEIVING, is_next ? HG_FW_NONE : HG_FW_OUT_OF_PLACE};
}

static hg_fw_status_t end(void *user)
{
    return (hg_fw_status_t){((test_device_t *)user)->image_bytes, HG_FW_STAGED, HG_FW_NONE};
}

static hg_fw_status_t report(void *user)
{
    return (hg_fw_status_t){((test_device_t *)user)->image_bytes, HG_FW_IDLE, HG_FW_NONE};
}

static const hg_update_t update = {begin, chunk, end, report, report};
#endif

test_device_t *device_new(const uint8_t *boot_id, const uint8_t *key)
{
    test_device_t *test = calloc(1, sizeof *test);
    if (test == NULL) {
        return NULL;
    }
    memcpy(test->boot_id, boot_id, HG_BOOT_ID_BYTES);
    test->room = OUTPUT_BYTES;
    test->device = (hg_device_t){.device_id = "test-device", .firmware = "1.2.3", .boot_id = test->boot_id,
        .sensors = sensors, .sensor_count = 2, .commands = commands, .command_count = 2};
    test->port = (hg_port_t){.user = test, .write = write_bytes, .now_ms = now_ms, .execute = execute};
#if HG_WITH_AUTH
    if (key != NULL) {
        memcpy(test->key, key, HG_KEY_BYTES);
        test->device.key = test->key;
    }
#else
    (void)key;
#endif
#if HG_WITH_UPDATE
    test->port.update = &update;
#endif
    if (hg_link_init(&test->link, &test->device, &test->port) != HG_OK) {
        free(test);
        return NULL;
    }
    return test;
}

void device_free(test_device_t *test) { free(test); }
void device_set_now(test_device_t *test, uint32_t now) { test->now_ms = now; }
void device_set_room(test_device_t *test, size_t bytes) { test->room = bytes; }
uint32_t device_executed(const test_device_t *test) { return test->executed; }
bool device_is_up(const test_device_t *test) { return hg_link_is_up(&test->link); }
bool device_is_idle(const test_device_t *test) { return hg_link_is_idle(&test->link); }
void device_receive(test_device_t *test, const uint8_t *data, size_t len) { hg_link_receive(&test->link, data, len); }
void device_poll(test_device_t *test) { hg_link_poll(&test->link); }
int device_log(test_device_t *test, int level, const char *text) { return hg_link_log(&test->link, (hg_level_t)level, text); }

int device_record(test_device_t *test, const hg_sample_t *samples, size_t count)
{
    return hg_link_record(&test->link, samples, count);
}

size_t device_take_output(test_device_t *test, uint8_t *data)
{
    size_t used = test->output_used;
    memcpy(data, test->output, used);
    test->output_used = 0;
    return used;
}
