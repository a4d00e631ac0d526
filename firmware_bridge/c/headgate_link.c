/* The device's end of the link. Three things move here:
 *
 *   line ──► rx ──► take_frame ──► on_sync, on_ack, …      a question sets a bit in `answers`
 *   line ◄── tx ◄── write_next ◄── answers, then queue     one frame leaves at a time
 *   queue:  [ durable? │ received │ on the way │ waiting ]
 *           0          `received`  `sent`      `tail`      offsets of records, each a length byte and a payload
 */
#include "hg_link_parts.h"

/* What the gateway sends: the kinds of the payload's items, two bits each, the first in the lowest. A kind is a major
 * type and one, or VALUE: a number, a text or null. */
enum { UINT = HG_CBOR_UINT + 1, VALUE = 2, BYTES = HG_CBOR_BYTES + 1, KINDS = 0x3f, OURS = 0x40 };
#define MAX_ITEMS 3
static const uint8_t shapes[] = {
    [SYNC] = OURS | BYTES | UINT << 2,
    [DESC_REQ] = OURS | UINT,
    [ACK] = OURS | UINT,
    [TIME_REQ] = OURS | UINT,
    [COMMAND] = OURS | UINT | UINT << 2 | VALUE << 4,
#if HG_WITH_UPDATE
    [FW_BEGIN] = OURS | BYTES | BYTES << 2,
    [FW_CHUNK] = OURS | UINT | BYTES << 2,
    [FW_END] = OURS,
    [FW_CONFIRM] = OURS,
    [FW_QUERY] = OURS,
#endif
};

typedef struct { unsigned major; uint32_t number; const uint8_t *data; } item_t;      /* data: of a string */
typedef struct { const uint8_t *header; item_t items[MAX_ITEMS]; } frame_t;

static void copy(uint8_t *to, const uint8_t *from, size_t len)      /* `to` may overlap `from` from below */
{
    for (size_t i = 0; i < len; i++) {
        to[i] = from[i];
    }
}

static uint32_t read_clock(hg_link_t *link)
{
    uint32_t now = link->port->now_ms(link->port->user);
    if (now < link->now_ms) {
        link->now_wraps++;
    }
    link->now_ms = now;
    return now;
}

/* ---- Receiving ---- */

static void go_back(hg_link_t *link)
{
    link->sent = link->received;
    link->sent_seq = link->received_seq;
    link->progress_ms = link->now_ms;
}

static void begin_session(hg_link_t *link, uint8_t session, const uint8_t *nonce)
{
    hg_end_session(link);
    copy(link->nonce, nonce, HG_NONCE_BYTES);
    link->session = session;
    link->syncs++;
    link->received = 0;
    link->received_seq = 0;
    link->high_seq = 0;
    go_back(link);
#if HG_WITH_AUTH
    if (hg_has_key(link)) {
        hg_derive_session_key(link);
    }
#endif
}

static void on_sync(hg_link_t *link, const frame_t *frame)
{
    const uint8_t *nonce = frame->items[0].data;
    uint32_t retry_ms = frame->items[1].number;
    if (frame->items[0].number != HG_NONCE_BYTES || retry_ms - 1 >= MAX_RETRY_MS) {
        return;
    }
    if (frame->header[SESSION] != link->session || !hg_is_same(nonce, link->nonce, HG_NONCE_BYTES)) {
        begin_session(link, frame->header[SESSION], nonce);
    }
    link->retry_ms = retry_ms;
    link->answers |= ANSWER_HELLO;
}

/* Drop records that are durable, from the oldest on; not those on the way, whose numbers are still in use. */
static void drop_committed(hg_link_t *link, uint32_t committed_rseq)
{
    uint16_t offset = 0;
    while (offset < link->tail) {
        hg_reader_t record = {link->queue + offset + 1, link->queue[offset], false};
        (void)hg_get_of(&record, HG_CBOR_ARRAY);
        if (hg_get_of(&record, HG_CBOR_UINT) >= committed_rseq) {
            break;
        }
        uint16_t next = (uint16_t)(offset + 1 + link->queue[offset]);
        if (offset == link->received) {
            if (link->received_seq != link->high_seq) {
                break;
            }
            link->received = next;
            link->sent = next;
        }
        offset = next;
    }
    link->tail = (uint16_t)(link->tail - offset);
    link->received = (uint16_t)(link->received - offset);
    link->sent = (uint16_t)(link->sent - offset);
    copy(link->queue, link->queue + offset, link->tail);
}

static void on_ack(hg_link_t *link, const frame_t *frame)
{
    uint32_t committed_rseq = frame->items[0].number;
    uint8_t received = (uint8_t)(frame->header[SEQ] - link->received_seq);
    if (committed_rseq > link->next_rseq || received > (uint8_t)(link->high_seq - link->received_seq)) {
        return;
    }
    bool is_ahead = received > (uint8_t)(link->sent_seq - link->received_seq);
    for (unsigned i = 0; i < received; i++) {
        link->received = (uint16_t)(link->received + 1 + link->queue[link->received]);
        link->progress_ms = link->now_ms;
    }
    link->received_seq = frame->header[SEQ];
    if (is_ahead || (frame->header[FLAGS] & FLAG_NAK)) {      /* ahead: this answers what was sent before going back */
        go_back(link);
    }
    drop_committed(link, committed_rseq);
    link->is_open = true;
}

static void on_time_request(hg_link_t *link, const frame_t *frame)
{
    link->time_token = frame->items[0].number;
    link->answers |= ANSWER_TIME;
}

static void on_description_request(hg_link_t *link, const frame_t *frame)
{
    uint32_t index = frame->items[0].number;
    if (index < (uint32_t)link->device->sensor_count + link->device->command_count) {
        link->desc_index = (uint16_t)index;
        link->answers |= ANSWER_DESC;
    }
}

static hg_value_t value_of(const item_t *item)
{
    hg_value_t value = {HG_NULL, (int32_t)item->number, {item->data, item->number}};
    if (item->major == HG_CBOR_TEXT) {
        value.kind = HG_TEXT;
    } else if (item->major <= HG_CBOR_NEGATIVE) {
        value.kind = HG_NUMBER;
        value.number ^= -(int32_t)item->major;      /* a negative number is -1 - its argument: every bit turned */
    }
    return value;
}

static void execute(hg_link_t *link, uint32_t index, const hg_value_t *argument)
{
    uint32_t command = index - link->device->sensor_count;      /* of a sensor's index: beyond all commands */
    link->result.kind = HG_NULL;
    link->result_status = HG_UNKNOWN;
    if (command < link->device->command_count && link->port->execute != NULL) {
        link->result_status = link->port->execute(link->port->user, (uint8_t)command, argument, &link->result);
    }
}

static void on_command(hg_link_t *link, const frame_t *frame)
{
    uint32_t id = frame->items[0].number;
    if (id == 0 || id < link->last_command) {
        return;
    }
    link->answers |= ANSWER_RESULT;
    if (id != link->last_command) {
        hg_value_t argument = value_of(&frame->items[2]);
        link->last_command = id;
        execute(link, frame->items[1].number, &argument);
    }
}

#if HG_WITH_UPDATE
static hg_fw_status_t do_update(hg_link_t *link, unsigned type, const item_t *items)
{
    static const hg_fw_status_t not_supported = {0, HG_FW_REFUSED, HG_FW_NOT_SUPPORTED};
    const hg_update_t *update = link->port->update;
    void *user = link->port->user;
    if (update == NULL) {
        return not_supported;
    }
    switch (type) {
    case FW_BEGIN:
        return update->begin(user, (hg_bytes_t){items[0].data, items[0].number}, items[1].data);
    case FW_CHUNK:
        return update->chunk(user, items[0].number, (hg_bytes_t){items[1].data, items[1].number});
    case FW_END:
        return update->end(user);
    case FW_CONFIRM:
        return update->confirm(user);
    default:
        return update->query(user);
    }
}

static void on_update(hg_link_t *link, unsigned type, const item_t *items)
{
    if (type == FW_BEGIN && (items[0].number == 0 || items[1].number != SIGNATURE_BYTES)) {
        return;
    }
    if (type == FW_CHUNK && items[1].number == 0) {
        return;
    }
    link->fw_status = do_update(link, type, items);
    link->answers |= ANSWER_FW_STATUS;
}
#endif

static bool is_of_kind(const item_t *item, unsigned kind)
{
    if (kind != VALUE) {
        return item->major + 1 == kind;
    }
    return item->major == HG_CBOR_TEXT || (item->major <= HG_CBOR_NEGATIVE && item->number <= INT32_MAX)
        || (item->major == HG_CBOR_SIMPLE && item->number == HG_CBOR_NULL);
}

/* Read a payload of items of these kinds. */
static bool get_items(hg_reader_t *payload, unsigned kinds, item_t *item)
{
    uint32_t count = hg_get_of(payload, HG_CBOR_ARRAY);
    for (; kinds != 0; kinds >>= 2, item++, count--) {
        item->number = hg_get_head(payload, &item->major);
        item->data = NULL;
        if (item->major == HG_CBOR_BYTES || item->major == HG_CBOR_TEXT) {
            item->data = hg_get_span(payload, item->number);
        }
        if (!is_of_kind(item, kinds & 3u)) {
            return false;
        }
    }
    return count == 0 && hg_get_end(payload);
}

static void take_body(hg_link_t *link, const uint8_t *body, size_t len)
{
    frame_t frame;
    hg_reader_t payload = {body + HEADER_BYTES, len - HEADER_BYTES, false};
    unsigned type = body[TYPE] ^ VERSION_BITS;
    bool is_sync = type == SYNC, is_proof_due = !is_sync && hg_has_key(link);
    unsigned flags = is_proof_due ? FLAG_AUTHENTICATED : 0;
    if (type >= sizeof shapes || shapes[type] == 0 || (body[FLAGS] & ~FLAG_NAK) != flags) {
        return;
    }
    if (body[SESSION] == 0 || (body[SESSION] != link->session && !is_sync)) {
        return;
    }
    if (is_proof_due) {
        if (!hg_is_proved(link, body, len)) {
            return;
        }
        payload.left -= PROOF_BYTES;
    }
    if (!get_items(&payload, shapes[type] & KINDS, frame.items)) {
        return;
    }
    frame.header = body;
    link->heard_ms = link->now_ms;
    switch (type) {
    case SYNC:
        on_sync(link, &frame);
        break;
    case DESC_REQ:
        on_description_request(link, &frame);
        break;
    case ACK:
        on_ack(link, &frame);
        break;
    case TIME_REQ:
        on_time_request(link, &frame);
        break;
    case COMMAND:
        on_command(link, &frame);
        break;
#if HG_WITH_UPDATE
    default:
        on_update(link, type, frame.items);
        break;
#endif
    }
}

static void take_frame(hg_link_t *link)
{
    size_t len = hg_cobs_decode(link->rx, link->rx_used);
    if (len < HEADER_BYTES + CRC_BYTES || len > HG_MTU) {
        return;
    }
    len -= CRC_BYTES;
    if (hg_crc32(0, link->rx, len) == hg_get_u32(link->rx + len)) {
        take_body(link, link->rx, len);
    }
}

/* ---- What the application calls ---- */

hg_status_t hg_link_init(hg_link_t *link, const hg_device_t *device, const hg_port_t *port)
{
    if (port->write == NULL || port->now_ms == NULL) {
        return HG_BAD_ARGUMENT;
    }
    for (size_t i = 0; i < sizeof *link; i++) {
        ((uint8_t *)link)[i] = 0;
    }
    link->device = device;
    link->port = port;
    for (unsigned i = 0; i < (unsigned)device->sensor_count + device->command_count; i++) {
        hg_writer_t description = {link->tx, 0, MAX_PAYLOAD_BYTES};
        hg_put_description(link, &description, i);
        if (description.used > description.size) {
            return HG_BAD_ARGUMENT;
        }
        link->schema = hg_crc32(link->schema, link->tx, description.used);
    }
    link->called_ms = read_clock(link);
    hg_write_hello(link);      /* the first call */
    return link->tx_used != 0 ? HG_OK : HG_BAD_ARGUMENT;
}

void hg_link_receive(hg_link_t *link, const uint8_t *data, size_t len)
{
    (void)read_clock(link);
    for (size_t i = 0; i < len; i++) {
        if (data[i] == 0) {
            take_frame(link);
            link->rx_used = 0;
        } else if (link->rx_used < sizeof link->rx) {      /* cut one byte above the limit, and so refused */
            link->rx[link->rx_used++] = data[i];
        }
    }
}

void hg_link_poll(hg_link_t *link)
{
    uint32_t now = read_clock(link);
    if (link->session != 0 && now - link->heard_ms >= HG_SILENCE_MS) {
        hg_end_session(link);
    }
    if (link->session == 0 && now - link->called_ms >= HG_CALL_INTERVAL_MS) {
        link->called_ms = now;
        link->answers |= ANSWER_HELLO;
    }
    if (link->sent_seq != link->received_seq && now - link->progress_ms >= link->retry_ms) {
        go_back(link);
    }
    while (hg_flush(link) && hg_write_next(link)) {
    }
}

hg_status_t hg_link_record(hg_link_t *link, const hg_sample_t *samples, size_t count)
{
    hg_writer_t record = {link->queue + link->tail, 0, (size_t)(HG_QUEUE_BYTES - link->tail)};
    if (count == 0 || count > HG_MAX_SAMPLES) {
        return HG_BAD_ARGUMENT;
    }
    if (record.size > 1 + MAX_RECORD_BYTES) {
        record.size = 1 + MAX_RECORD_BYTES;
    }
    (void)read_clock(link);
    hg_put_byte(&record, 0);      /* its length, once that is known */
    hg_put_head(&record, HG_CBOR_ARRAY, (uint32_t)(2 + 2 * count));
    hg_put_uint(&record, link->next_rseq++);
    hg_put_uptime(link, &record);
    for (size_t i = 0; i < count; i++) {
        hg_put_uint(&record, samples[i].sensor);
        if (samples[i].value == HG_NO_VALUE) {
            hg_put_null(&record);
        } else {
            hg_put_int(&record, samples[i].value);
        }
    }
    if (record.used > record.size) {
        link->dropped++;
        return HG_FULL;
    }
    record.data[0] = (uint8_t)(record.used - 1);
    link->tail = (uint16_t)(link->tail + record.used);
    return HG_OK;
}

hg_status_t hg_link_log(hg_link_t *link, hg_level_t level, const char *text)
{
    uint32_t number = link->log_number++;
    size_t len = 0;
    if (!link->is_open) {
        return HG_DOWN;
    }
    if (!hg_flush(link)) {
        return HG_FULL;
    }
    while (len < HG_MAX_LOG_BYTES && text[len] != '\0') {
        len++;
    }
    while (len > 0 && ((uint8_t)text[len] & 0xc0u) == 0x80u) {      /* not within a character */
        len--;
    }
    hg_writer_t body = hg_begin_frame(link, LOG, 3);
    hg_put_uint(&body, number);
    hg_put_uint(&body, level);
    hg_put_string(&body, HG_CBOR_TEXT, (const uint8_t *)text, len);
    hg_end_frame(link, &body);
    (void)hg_flush(link);
    return HG_OK;
}

bool hg_link_is_up(const hg_link_t *link)
{
    return link->is_open;
}

bool hg_link_is_idle(const hg_link_t *link)
{
    return link->tx_written == link->tx_used && link->answers == 0;
}
