/* The device's end of the link. Three things move here:
 *
 *   line ──► rx ──► take_frame ──► on_sync, on_ack, …      a question sets a bit in `answers`
 *   line ◄── tx ◄── write_next ◄── answers, then queue     one frame leaves at a time
 *   queue:  [ durable? │ received │ on the way │ waiting ]
 *           0          `received`  `sent`      `tail`      offsets of records, each a length byte and a payload
 */
#include "headgate_link.h"

#include "hg_wire.h"
#if HG_WITH_AUTH
#include "hg_blake2s.h"
#endif

enum {
    SYNC = 1, HELLO = 2, DESC_REQ = 3, DESC = 4, READING = 5, ACK = 6, TIME_REQ = 7, TIME = 8, COMMAND = 9, RESULT = 10,
    LOG = 11, FW_BEGIN = 16, FW_CHUNK = 17, FW_END = 18, FW_CONFIRM = 19, FW_QUERY = 20, FW_STATUS = 21
};
enum { ANSWER_HELLO = 1, ANSWER_TIME = 2, ANSWER_RESULT = 4, ANSWER_DESC = 8, ANSWER_FW_STATUS = 16 };
enum { TYPE, FLAGS, SESSION, SEQ, HEADER_BYTES };      /* bytes of the header */
enum { FLAG_AUTHENTICATED = 1, FLAG_NAK = 2 };
enum { FEATURE_AUTHENTICATED = 1, FEATURE_UPDATE = 2 };

#define MAX_RETRY_MS 60000u
#define VERSION_BITS 0x40u
#define CRC_BYTES 4u
#define PROOF_BYTES 12u
#define SIGNATURE_BYTES 64u
#define MAX_PAYLOAD_BYTES (HG_MTU - HEADER_BYTES - PROOF_BYTES - CRC_BYTES)
#define MAX_RECORD_BYTES (MAX_PAYLOAD_BYTES < 255u ? MAX_PAYLOAD_BYTES : 255u)      /* the length is one byte */
#define BODY_AT (1u + HG_STUFFING_BYTES)                                            /* in tx: room to stuff in place */

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

static bool is_same(const uint8_t *a, const uint8_t *b, size_t len)     /* in the same time for any two */
{
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference |= a[i] ^ b[i];
    }
    return difference == 0;
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

static void end_session(hg_link_t *link)
{
    link->session = 0;
    link->is_open = false;
    link->answers = 0;
}

/* ---- Authentication ---- */

#if HG_WITH_AUTH
static bool has_key(const hg_link_t *link)
{
    return link->device->key != NULL;
}

static void derive_session_key(hg_link_t *link)
{
    static const uint8_t label[] = {'h', 'e', 'a', 'd', 'g', 'a', 't', 'e', ' ', 'l', 'i', 'n', 'k', ' ', '1'};
    hg_blake2s_t hash;
    uint8_t syncs[4];
    hg_writer_t writer = {syncs, 0, sizeof syncs};
    hg_put_u32(&writer, link->syncs);
    hg_blake2s_init(&hash, link->device->key, HG_KEY_BYTES);
    hg_blake2s_add(&hash, label, sizeof label);
    hg_blake2s_add(&hash, link->nonce, HG_NONCE_BYTES);
    hg_blake2s_add(&hash, link->device->boot_id, HG_BOOT_ID_BYTES);
    hg_blake2s_add(&hash, syncs, sizeof syncs);
    hg_blake2s_end(&hash, link->session_key);
    link->tx_counter = 0;
    link->rx_counter = 0;
}

static void compute_tag(const hg_link_t *link, uint8_t direction, const uint8_t *covered, size_t len, uint8_t tag[8])
{
    hg_blake2s_t hash;
    hg_blake2s_init(&hash, link->session_key, 8);
    hg_blake2s_add(&hash, &direction, 1);
    hg_blake2s_add(&hash, covered, len);
    hg_blake2s_end(&hash, tag);
}

/* Whether the gateway made this body (without CRC) in this session, after all those taken before. */
static bool is_proved(hg_link_t *link, const uint8_t *body, size_t len)
{
    uint8_t tag[8];
    if (len < HEADER_BYTES + PROOF_BYTES) {
        return false;
    }
    compute_tag(link, 0, body, len - sizeof tag, tag);
    uint32_t counter = hg_get_u32(body + len - PROOF_BYTES);
    if (!is_same(tag, body + len - sizeof tag, sizeof tag) || counter < link->rx_counter || counter == UINT32_MAX) {
        return false;
    }
    link->rx_counter = counter + 1;
    return true;
}

static void put_proof(hg_link_t *link, hg_writer_t *body)
{
    uint8_t tag[8];
    hg_put_u32(body, link->tx_counter);
    compute_tag(link, 1, body->data, body->used, tag);
    hg_put_raw(body, tag, sizeof tag);
    if (++link->tx_counter == UINT32_MAX) {
        end_session(link);
    }
}
#else
#define has_key(link) false
#define is_proved(link, body, len) true
#endif

/* ---- Sending ---- */

static hg_writer_t begin_frame(hg_link_t *link, unsigned type, unsigned seq, uint32_t items)
{
    hg_writer_t body = {link->tx + BODY_AT, HEADER_BYTES, HG_MTU - PROOF_BYTES - CRC_BYTES};
    body.data[TYPE] = (uint8_t)(VERSION_BITS | type);
    body.data[FLAGS] = has_key(link) && link->session != 0 ? FLAG_AUTHENTICATED : 0;
    body.data[SESSION] = link->session;
    body.data[SEQ] = (uint8_t)seq;
    if (items != 0) {
        hg_put_head(&body, HG_CBOR_ARRAY, items);
    }
    return body;
}

static void end_frame(hg_link_t *link, hg_writer_t *body)
{
    if (body->used > body->size) {
        return;      /* a text of the application's is too long */
    }
    body->size = HG_MTU;
#if HG_WITH_AUTH
    if (body->data[FLAGS] & FLAG_AUTHENTICATED) {
        put_proof(link, body);
    }
#endif
    hg_put_u32(body, hg_crc32(0, body->data, body->used));
    size_t stuffed = hg_cobs_encode(link->tx + 1, body->data, body->used);
    link->tx[0] = 0;
    link->tx[1 + stuffed] = 0;
    link->tx_used = (uint16_t)(stuffed + 2);
    link->tx_written = 0;
}

static void put_uptime(const hg_link_t *link, hg_writer_t *writer)
{
    hg_put_uint64(writer, link->now_wraps, link->now_ms);
}

static void write_hello(hg_link_t *link)
{
    const hg_device_t *device = link->device;
    uint32_t features = has_key(link) ? FEATURE_AUTHENTICATED : 0;
#if HG_WITH_UPDATE
    features |= link->port->update != NULL ? FEATURE_UPDATE : 0;
#endif
    const uint32_t numbers[] = {
        HG_MTU, HG_WINDOW, device->sensor_count, device->command_count, link->schema, link->next_rseq, link->dropped,
        link->last_command,
    };
    hg_writer_t body = begin_frame(link, HELLO, 0, 15);
    hg_put_string(&body, HG_CBOR_BYTES, link->nonce, link->session != 0 ? HG_NONCE_BYTES : 0);
    hg_put_string(&body, HG_CBOR_BYTES, device->boot_id, HG_BOOT_ID_BYTES);
    hg_put_uint(&body, link->syncs);
    hg_put_text(&body, device->device_id);
    hg_put_text(&body, device->firmware);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        hg_put_uint(&body, numbers[i]);
    }
    put_uptime(link, &body);
    hg_put_uint(&body, features);
    end_frame(link, &body);
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

static void put_description(const hg_link_t *link, hg_writer_t *body, uint32_t index)
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
    hg_writer_t body = begin_frame(link, DESC, 0, 0);
    put_description(link, &body, link->desc_index);
    end_frame(link, &body);
}

static void write_time(hg_link_t *link)
{
    hg_writer_t body = begin_frame(link, TIME, 0, 2);
    hg_put_uint(&body, link->time_token);
    put_uptime(link, &body);
    end_frame(link, &body);
}

static void write_result(hg_link_t *link)
{
    hg_writer_t body = begin_frame(link, RESULT, 0, 3);
    hg_put_uint(&body, link->last_command);
    hg_put_uint(&body, link->result_status);
    if (link->result.kind == HG_NUMBER) {
        hg_put_int(&body, link->result.number);
    } else if (link->result.kind == HG_TEXT) {
        hg_put_string(&body, HG_CBOR_TEXT, link->result.text.data, link->result.text.len);
    } else {
        hg_put_null(&body);
    }
    end_frame(link, &body);
}

#if HG_WITH_UPDATE
static void write_fw_status(hg_link_t *link)
{
    hg_writer_t body = begin_frame(link, FW_STATUS, 0, 3);
    hg_put_uint(&body, link->fw_status.next_offset);
    hg_put_uint(&body, link->fw_status.state);
    hg_put_uint(&body, link->fw_status.reason);
    end_frame(link, &body);
}
#endif

static void write_reading(hg_link_t *link)
{
    uint8_t len = link->queue[link->sent];
    hg_writer_t body = begin_frame(link, READING, link->sent_seq, 0);
    hg_put_raw(&body, link->queue + link->sent + 1, len);
    end_frame(link, &body);
    if (link->sent_seq == link->received_seq) {
        link->progress_ms = link->now_ms;
    }
    if (link->sent_seq == link->high_seq) {
        link->high_seq++;
    }
    link->sent_seq++;
    link->sent = (uint16_t)(link->sent + 1 + len);
}

/* Put the next frame into tx, if there is one. */
static bool write_next(hg_link_t *link)
{
    typedef void (*write_t)(hg_link_t *);
    static const write_t writers[] = {
        write_hello, write_time, write_result, write_description,
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

static bool flush(hg_link_t *link)
{
    size_t left = (size_t)(link->tx_used - link->tx_written);
    size_t taken = left == 0 ? 0 : link->port->write(link->port->user, link->tx + link->tx_written, left);
    link->tx_written = (uint16_t)(link->tx_written + taken);
    return taken == left;
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
    end_session(link);
    copy(link->nonce, nonce, HG_NONCE_BYTES);
    link->session = session;
    link->syncs++;
    link->received = 0;
    link->received_seq = 0;
    link->high_seq = 0;
    go_back(link);
#if HG_WITH_AUTH
    if (has_key(link)) {
        derive_session_key(link);
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
    if (frame->header[SESSION] != link->session || !is_same(nonce, link->nonce, HG_NONCE_BYTES)) {
        begin_session(link, frame->header[SESSION], nonce);
    }
    link->retry_ms = retry_ms;
    link->answers |= ANSWER_HELLO;
}

/* Drop records that are durable, from the oldest on; not those on the way, whose numbers are still in use. */
static void forget(hg_link_t *link, uint32_t committed_rseq)
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
    forget(link, committed_rseq);
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
    bool is_sync = type == SYNC, is_proof_due = !is_sync && has_key(link);
    unsigned flags = is_proof_due ? FLAG_AUTHENTICATED : 0;
    if (type >= sizeof shapes || shapes[type] == 0 || (body[FLAGS] & ~FLAG_NAK) != flags) {
        return;
    }
    if (body[SESSION] == 0 || (body[SESSION] != link->session && !is_sync)) {
        return;
    }
    if (is_proof_due) {
        if (!is_proved(link, body, len)) {
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
        put_description(link, &description, i);
        if (description.used > description.size) {
            return HG_BAD_ARGUMENT;
        }
        link->schema = hg_crc32(link->schema, link->tx, description.used);
    }
    link->called_ms = read_clock(link);
    write_hello(link);      /* the first call */
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
        end_session(link);
    }
    if (link->session == 0 && now - link->called_ms >= HG_CALL_INTERVAL_MS) {
        link->called_ms = now;
        link->answers |= ANSWER_HELLO;
    }
    if (link->sent_seq != link->received_seq && now - link->progress_ms >= link->retry_ms) {
        go_back(link);
    }
    while (flush(link) && write_next(link)) {
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
    put_uptime(link, &record);
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
    if (!flush(link)) {
        return HG_FULL;
    }
    while (len < HG_MAX_LOG_BYTES && text[len] != '\0') {
        len++;
    }
    while (len > 0 && ((uint8_t)text[len] & 0xc0u) == 0x80u) {      /* not within a character */
        len--;
    }
    hg_writer_t body = begin_frame(link, LOG, 0, 3);
    hg_put_uint(&body, number);
    hg_put_uint(&body, level);
    hg_put_string(&body, HG_CBOR_TEXT, (const uint8_t *)text, len);
    end_frame(link, &body);
    (void)flush(link);
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
