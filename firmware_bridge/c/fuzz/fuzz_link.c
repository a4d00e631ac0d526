/* libFuzzer target: a device that receives arbitrary bytes. The first byte chooses how, the second is the time it
 * starts at; the rest are pieces, each led by its length less one. Three ways in: raw bytes; bodies in an open session,
 * which get a CRC and stuffing here; and bodies with a valid proof as well. */
#include <stdlib.h>
#include <string.h>

#include "headgate_link.h"
#include "hg_blake2s.h"
#include "hg_wire.h"

enum { RAW, BODIES, PROVED, WAYS };

static uint32_t now;
static const uint8_t boot_id[HG_BOOT_ID_BYTES] = {1}, key[HG_KEY_BYTES] = {2};
static const hg_sensor_t sensors[] = {{"temperature", "temperature", "Cel", -2}};
static const hg_command_t commands[] = {{"count", "a number"}, {"say", "a text"}};

static size_t write_some(void *user, const uint8_t *data, size_t len)
{
    (void)user;
    volatile uint8_t sum = 0;      /* every byte passed on must be readable */
    for (size_t i = 0; i < len; i++) {
        sum = (uint8_t)(sum + data[i]);
    }
    return now % 3 == 0 ? len : len / 2;
}

static uint32_t read_clock(void *user)
{
    (void)user;
    return now;
}

static hg_result_t execute(void *user, uint8_t command, const hg_value_t *argument, hg_value_t *result)
{
    (void)user;
    if (command >= sizeof commands / sizeof *commands) {
        abort();
    }
    *result = *argument;
    result->text.data = (const uint8_t *)"text";
    result->text.len = 4;
    return HG_DONE;
}

static hg_fw_status_t begin(void *user, hg_bytes_t manifest, const uint8_t signature[64])
{
    (void)user;
    return (hg_fw_status_t){(uint32_t)manifest.data[manifest.len - 1] + signature[63], HG_FW_RECEIVING, HG_FW_NONE};
}

static hg_fw_status_t chunk(void *user, uint32_t offset, hg_bytes_t data)
{
    (void)user;
    return (hg_fw_status_t){offset + data.data[data.len - 1], HG_FW_RECEIVING, HG_FW_NONE};
}

static hg_fw_status_t step(void *user)
{
    (void)user;
    return (hg_fw_status_t){0, HG_FW_IDLE, HG_FW_NONE};
}

/* Send a body as a frame, in the session of the link, with a proof if that is asked for. */
static void send_body(hg_link_t *link, const uint8_t *data, size_t len, int way)
{
    uint8_t body[HG_MTU], stuffed[HG_MTU + HG_STUFFING_BYTES + 1];
    hg_writer_t writer = {body, 0, sizeof body};
    hg_put_raw(&writer, data, len);
    if (len >= 4 && data[3] < 200) {
        body[0] = (uint8_t)((body[0] & 31u) | 0x40u);
        body[2] = link->session != 0 ? link->session : 7;
    }
    if (way == PROVED && len >= 4 && (body[0] & 31u) != 1) {
        hg_blake2s_t hash;
        uint8_t tag[8], direction = 0;
        body[1] |= 1u;
        hg_put_u32(&writer, link->rx_counter);
        hg_blake2s_init(&hash, link->session_key, sizeof tag);
        hg_blake2s_add(&hash, &direction, 1);
        hg_blake2s_add(&hash, body, writer.used);
        hg_blake2s_end(&hash, tag);
        hg_put_raw(&writer, tag, sizeof tag);
    }
    hg_put_u32(&writer, hg_crc32(0, body, writer.used));
    size_t count = hg_cobs_encode(stuffed, body, writer.used);
    stuffed[count] = 0;
    hg_link_receive(link, stuffed, count + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const hg_update_t update = {begin, chunk, step, step, step};
    static const uint8_t sync[] = {0x41, 0, 7, 0, 0x82, 0x48, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 200};
    static const uint8_t ack[] = {0x46, 0, 7, 0, 0x81, 0};
    if (size < 2) {
        return 0;
    }
    int way = data[0] % WAYS;
    hg_device_t device = {"fuzzed", "1", boot_id, sensors, commands, 1, 2, way == PROVED ? key : NULL};
    hg_port_t port = {NULL, write_some, read_clock, execute, &update};
    hg_link_t *link = malloc(sizeof *link);      /* on the heap, so that a step outside is seen */
    now = data[1];
    if (link == NULL || hg_link_init(link, &device, &port) != HG_OK) {
        abort();
    }
    if (way != RAW) {
        send_body(link, sync, sizeof sync, way);
        send_body(link, ack, sizeof ack, way);
    }
    for (size_t at = 2; at < size;) {
        size_t len = 1 + data[at] % 200u, left = size - at - 1;
        len = len < left ? len : left;
        uint8_t *piece = malloc(len + 1);
        if (piece == NULL) {
            abort();
        }
        memcpy(piece, data + at + 1, len);
        if (way == RAW) {
            hg_link_receive(link, piece, len);
        } else {
            send_body(link, piece, len, way);
        }
        free(piece);
        hg_sample_t sample = {0, (int32_t)(now * 2654435761u)};
        hg_link_record(link, &sample, 1);
        hg_link_log(link, HG_INFO, "a line");
        now += data[at] * 8u;
        hg_link_poll(link);
        if (hg_link_is_up(link) && link->session == 0) {
            abort();
        }
        (void)hg_link_is_idle(link);
        at += 1 + len;
    }
    free(link);
    return 0;
}
