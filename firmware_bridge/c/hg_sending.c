/* What goes out, one frame at a time: answers first, then readings. A frame is made in tx, and stuffed there. */
#include "hg_link_parts.h"

hg_writer_t hg_begin_frame(hg_link_t *link, unsigned type, uint32_t items)
{
    hg_writer_t body = {link->tx + BODY_AT, HEADER_BYTES, HG_MTU - PROOF_BYTES - CRC_BYTES};
    body.data[TYPE] = (uint8_t)(VERSION_BITS | type);
    body.data[FLAGS] = hg_has_key(link) && link->session != 0 ? FLAG_AUTHENTICATED : 0;
    body.data[SESSION] = link->session;
    body.data[SEQ] = 0;
    if (items != 0) {
        hg_put_head(&body, HG_CBOR_ARRAY, items);
    }
    return body;
}

void hg_end_frame(hg_link_t *link, hg_writer_t *body)
{
    if (body->used > body->size) {
        return;      /* a text of the application's is too long */
    }
    body->size = HG_MTU;
#if HG_WITH_AUTH
    if (body->data[FLAGS] & FLAG_AUTHENTICATED) {
        hg_put_proof(link, body);
    }
#endif
    hg_put_u32(body, hg_crc32(0, body->data, body->used));
    size_t stuffed = hg_cobs_encode(link->tx + 1, body->data, body->used);
    link->tx[0] = 0;
    link->tx[1 + stuffed] = 0;
    link->tx_used = (uint16_t)(stuffed + 2);
    link->tx_written = 0;
}

void hg_put_uptime(const hg_link_t *link, hg_writer_t *writer)
{
    hg_put_uint64(writer, link->now_wraps, link->now_ms);
}

void hg_write_hello(hg_link_t *link)
{
    const hg_device_t *device = link->device;
    uint32_t features = hg_has_key(link) ? FEATURE_AUTHENTICATED : 0;
#if HG_WITH_UPDATE
    features |= link->port->update != NULL ? FEATURE_UPDATE : 0;
#endif
    const uint32_t numbers[] = {
        HG_MTU, HG_WINDOW, device->sensor_count, device->command_count, link->schema, link->next_rseq, link->dropped,
        link->last_command,
    };
    hg_writer_t body = hg_begin_frame(link, HELLO, 15);
    hg_put_string(&body, HG_CBOR_BYTES, link->nonce, link->session != 0 ? HG_NONCE_BYTES : 0);
    hg_put_string(&body, HG_CBOR_BYTES, device->boot_id, HG_BOOT_ID_BYTES);
    hg_put_uint(&body, link->syncs);
    hg_put_text(&body, device->device_id);
    hg_put_text(&body, device->firmware);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        hg_put_uint(&body, numbers[i]);
    }
    hg_put_uptime(link, &body);
    hg_put_uint(&body, features);
    hg_end_frame(link, &body);
}

static void put_description_head(
    hg_writer_t *body, uint32_t items, uint32_t index, uint32_t kind, const char *name, const char *detail)
{
    hg_put_head(body, HG_CBOR_ARRAY, items);
    hg_put_uint(body, index);
    hg_put_uint(body, kind);
    hg_put_text(body, name);
    hg_put_text(body, detail);
}

void hg_put_description(const hg_link_t *link, hg_writer_t *body, uint32_t index)
{
    const hg_device_t *device = link->device;
    if (index < device->sensor_count) {
        const hg_sensor_t *sensor = &device->sensors[index];
        put_description_head(body, 6, index, 0, sensor->name, sensor->quantity);
        hg_put_text(body, sensor->unit);
        hg_put_int(body, sensor->exponent);
    } else {
        const hg_command_t *command = &device->commands[index - device->sensor_count];
        put_description_head(body, 4, index, 1, command->name, command->argument);
    }
}

static void write_description(hg_link_t *link)
{
    hg_writer_t body = hg_begin_frame(link, DESC, 0);
    hg_put_description(link, &body, link->desc_index);
    hg_end_frame(link, &body);
}

static void write_time(hg_link_t *link)
{
    hg_writer_t body = hg_begin_frame(link, TIME, 2);
    hg_put_uint(&body, link->time_token);
    hg_put_uptime(link, &body);
    hg_end_frame(link, &body);
}

static void write_result(hg_link_t *link)
{
    hg_writer_t body = hg_begin_frame(link, RESULT, 3);
    hg_put_uint(&body, link->last_command);
    hg_put_uint(&body, link->result_status);
    if (link->result.kind == HG_NUMBER) {
        hg_put_int(&body, link->result.number);
    } else if (link->result.kind == HG_TEXT) {
        hg_put_string(&body, HG_CBOR_TEXT, link->result.text.data, link->result.text.len);
    } else {
        hg_put_null(&body);
    }
    hg_end_frame(link, &body);
}

#if HG_WITH_UPDATE
static void write_fw_status(hg_link_t *link)
{
    hg_writer_t body = hg_begin_frame(link, FW_STATUS, 3);
    hg_put_uint(&body, link->fw_status.next_offset);
    hg_put_uint(&body, link->fw_status.state);
    hg_put_uint(&body, link->fw_status.reason);
    hg_end_frame(link, &body);
}
#endif

static void write_reading(hg_link_t *link)
{
    uint8_t len = link->queue[link->sent];
    hg_writer_t body = hg_begin_frame(link, READING, 0);
    body.data[SEQ] = link->sent_seq;
    hg_put_raw(&body, link->queue + link->sent + 1, len);
    hg_end_frame(link, &body);
    if (link->sent_seq == link->received_seq) {
        link->progress_ms = link->now_ms;
    }
    if (link->sent_seq == link->high_seq) {
        link->high_seq++;
    }
    link->sent_seq++;
    link->sent = (uint16_t)(link->sent + 1 + len);
}

bool hg_write_next(hg_link_t *link)
{
    typedef void (*write_t)(hg_link_t *);
    static const write_t writers[] = {
        hg_write_hello, write_time, write_result, write_description,
#if HG_WITH_UPDATE
        write_fw_status,
#endif
    };
    for (unsigned i = 0; i < sizeof writers / sizeof *writers; i++) {
        if ((unsigned)link->answers >> i & 1u) {
            link->answers = (uint8_t)(link->answers & ~(1u << i));
            writers[i](link);
            return true;
        }
    }
    if (link->is_open && link->sent < link->tail && (uint8_t)(link->sent_seq - link->received_seq) < HG_WINDOW) {
        write_reading(link);
        return true;
    }
    return false;
}

bool hg_flush(hg_link_t *link)
{
    size_t left = (size_t)(link->tx_used - link->tx_written);
    size_t taken = left == 0 ? 0 : link->port->write(link->port->user, link->tx + link->tx_written, left);
    link->tx_written = (uint16_t)(link->tx_written + taken);
    return taken == left;
}
