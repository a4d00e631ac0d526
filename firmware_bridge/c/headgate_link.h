/* Headgate link: readings from a microcontroller to a gateway, over a serial line, with nothing lost on the way.
 *
 * The gateway begins (SYNC), the device answers (HELLO) and describes its sensors and commands; records of
 * readings wait in a queue here until the gateway acknowledges them as durable. Chapter 10 of
 * docs/wire-formats.md has every byte and every rule; this header is all an application needs.
 *
 *     static hg_link_t link;
 *     hg_link_init(&link, &device, &port);
 *     for (;;) {
 *         hg_link_receive(&link, bytes, count);            // what the UART has received
 *         if (time to measure) hg_link_record(&link, samples, sample_count);
 *         hg_link_poll(&link);                             // at least every 10 ms
 *     }
 *
 * Promises
 *   - C99, freestanding: no heap, no globals, no recursion, no float, no library but the compiler's own helpers
 *     (memcpy, memmove, memset, memcmp, 64-bit arithmetic). The caller owns every byte, all of it in hg_link_t.
 *   - No call blocks. The work of a call is bounded by the bytes it is given and by HG_MTU and HG_QUEUE_BYTES.
 *   - Whatever arrives on the line, no byte outside hg_link_t is written, and no callback sees unchecked data.
 *   - A record that was taken (HG_OK) stays queued until the gateway has it durably, across lost frames, gateway
 *     restarts and pulled cables; only a reset of the device loses it. One that was not taken leaves a hole in the
 *     numbers, so the gateway knows.
 *   - A command is executed at most once, however often it arrives.
 *
 * Interrupts: call all functions for one hg_link_t from one context, usually the main loop. An interrupt handler
 * should only move bytes between the UART and a buffer of the board's. Clear the interrupt before draining the UART.
 */
#ifndef HEADGATE_LINK_H
#define HEADGATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Build options: define them for the library and for whatever includes this header alike. ---- */

#ifndef HG_MTU              /* largest frame body taken and sent, in bytes; two buffers of about this size */
#define HG_MTU 256
#endif
#ifndef HG_QUEUE_BYTES      /* space for records that are not durable yet; one sensor takes about 13 bytes */
#define HG_QUEUE_BYTES 1024
#endif
#ifndef HG_WINDOW           /* most readings on the way at a time */
#define HG_WINDOW 4
#endif
#ifndef HG_WITH_AUTH        /* 1: frames may be authenticated by a pre-shared key (hg_blake2s.c is needed) */
#define HG_WITH_AUTH 0
#endif
#ifndef HG_WITH_UPDATE      /* 1: firmware update messages reach hg_port_t.update */
#define HG_WITH_UPDATE 0
#endif
/* HG_CRC32_EXTERN: defined when the board brings its own hg_crc32, for instance in hardware. */

#if HG_MTU < 160 || HG_MTU > 1024
#error "HG_MTU must be 160 to 1024: every HELLO fits 160, no frame is longer than 1024"
#endif
#if HG_QUEUE_BYTES < 64 || HG_QUEUE_BYTES > 65535
#error "HG_QUEUE_BYTES must be 64 to 65535"
#endif
#if HG_WINDOW < 1 || HG_WINDOW > 16
#error "HG_WINDOW must be 1 to 16"
#endif
#if (HG_WITH_AUTH != 0 && HG_WITH_AUTH != 1) || (HG_WITH_UPDATE != 0 && HG_WITH_UPDATE != 1)
#error "HG_WITH_AUTH and HG_WITH_UPDATE must be 0 or 1"
#endif

#define HG_BOOT_ID_BYTES 8
#define HG_NONCE_BYTES 8
#define HG_KEY_BYTES 32
#define HG_MAX_NAME_BYTES 32
#define HG_MAX_UNIT_BYTES 16
#define HG_MAX_SAMPLES 64
#define HG_MAX_LOG_BYTES 120          /* longer lines are cut; must fit HG_MTU 160 */
#define HG_CALL_INTERVAL_MS 1000u     /* between HELLOs while there is no session */
#define HG_SILENCE_MS 3000u           /* without a frame from the gateway the session ends */
#define HG_STUFFING_BYTES (HG_MTU / 254 + 1)

/* ---- Values ---- */

typedef enum {
    HG_OK = 0,
    HG_FULL = -1,            /* no space: the record or line is lost, and counted */
    HG_BAD_ARGUMENT = -2,
    HG_DOWN = -3             /* no session */
} hg_status_t;

typedef struct { const uint8_t *data; size_t len; } hg_bytes_t;   /* a pointer never travels without its length */

/* A value v means v * 10^exponent of the unit (UCUM). Texts are UTF-8 without control characters: name and quantity
 * 1 to HG_MAX_NAME_BYTES, unit at most HG_MAX_UNIT_BYTES. */
typedef struct { const char *name; const char *quantity; const char *unit; int8_t exponent; } hg_sensor_t;

/* `argument` describes what to pass ("0 or 1"); empty if there is none. */
typedef struct { const char *name; const char *argument; } hg_command_t;

#define HG_NO_VALUE INT32_MIN         /* the sensor gave none */
typedef struct { uint8_t sensor; int32_t value; } hg_sample_t;

typedef enum { HG_NULL, HG_NUMBER, HG_TEXT } hg_kind_t;
typedef struct { hg_kind_t kind; int32_t number; hg_bytes_t text; } hg_value_t;

typedef enum { HG_DONE = 0, HG_UNKNOWN = 1, HG_REFUSED_ARGUMENT = 2, HG_FAILED = 3 } hg_result_t;
typedef enum { HG_DEBUG = 0, HG_INFO = 1, HG_WARNING = 2, HG_ERROR = 3 } hg_level_t;

/* What the device is. Must stay valid and unchanged as long as the link is used. */
typedef struct {
    const char *device_id;            /* 1 to HG_MAX_NAME_BYTES; the same for ever */
    const char *firmware;             /* its version, 1 to HG_MAX_NAME_BYTES */
    const uint8_t *boot_id;           /* HG_BOOT_ID_BYTES that this device has never used before and never will again:
                                         with a used one the gateway takes new records for old, and drops them */
    const hg_sensor_t *sensors;
    const hg_command_t *commands;
    uint8_t sensor_count;
    uint8_t command_count;
#if HG_WITH_AUTH
    const uint8_t *key;               /* HG_KEY_BYTES shared with the gateway; NULL: not authenticated */
#endif
} hg_device_t;

#if HG_WITH_UPDATE
typedef enum {
    HG_FW_IDLE = 0, HG_FW_RECEIVING = 1, HG_FW_STAGED = 2, HG_FW_TRIAL = 3, HG_FW_REFUSED = 4
} hg_fw_state_t;
typedef enum {
    HG_FW_NONE = 0, HG_FW_NOT_SUPPORTED = 1, HG_FW_BAD_MANIFEST = 2, HG_FW_BAD_SIGNATURE = 3, HG_FW_OTHER_BOARD = 4,
    HG_FW_ROLLED_BACK = 5, HG_FW_TOO_LARGE = 6, HG_FW_BAD_DIGEST = 7, HG_FW_FLASH_FAILED = 8, HG_FW_OUT_OF_PLACE = 9,
    HG_FW_NOT_BEGUN = 10, HG_FW_REVERTED = 11
} hg_fw_reason_t;
typedef struct { uint32_t next_offset; hg_fw_state_t state; hg_fw_reason_t reason; } hg_fw_status_t;

/* Firmware update. Each callback does its step and returns where things stand, which the library sends as FW_STATUS.
 * Any of them may be called again with the same arguments, when the answer was lost. */
typedef struct {
    hg_fw_status_t (*begin)(void *user, hg_bytes_t manifest, const uint8_t signature[64]);
    hg_fw_status_t (*chunk)(void *user, uint32_t offset, hg_bytes_t data);   /* 1 byte or more */
    hg_fw_status_t (*end)(void *user);
    hg_fw_status_t (*confirm)(void *user);
    hg_fw_status_t (*query)(void *user);
} hg_update_t;
#endif

/* All the library needs from the board. Must stay valid as long as the link is used. */
typedef struct {
    void *user;                                                      /* passed to every callback */
    size_t (*write)(void *user, const uint8_t *data, size_t len);    /* returns bytes taken, 0 to len; must not block */
    uint32_t (*now_ms)(void *user);   /* since the boot; may wrap, if a call comes at least once in 49 days */
    /* Execute command number `command` (0 to command_count - 1) and set *result, which is null before. A text in it
     * (UTF-8, at most 64 bytes) must stay valid until the next command; `argument` is valid during the call only.
     * May be NULL: there are no commands. */
    hg_result_t (*execute)(void *user, uint8_t command, const hg_value_t *argument, hg_value_t *result);
#if HG_WITH_UPDATE
    const hg_update_t *update;        /* NULL: answers that it is not supported */
#endif
} hg_port_t;

/* ---- The link. Its fields are the library's own. ---- */

typedef struct {                      /* small fields first: a Cortex-M reaches them with shorter instructions */
    uint8_t session, answers;
    uint8_t received_seq, sent_seq, high_seq;   /* numbers of `received`, `sent`; one above all ever sent */
    bool is_open;                     /* the gateway's first ACK of the session is there */
    hg_result_t result_status;
    uint16_t tail, received, sent;    /* queue: end, first not received, next to send (offsets) */
    uint16_t rx_used, tx_used, tx_written;
    uint16_t desc_index;
    const hg_device_t *device;
    const hg_port_t *port;
    uint32_t now_ms, now_wraps;       /* the clock, 64 bits in all */
    uint32_t heard_ms, called_ms, progress_ms, retry_ms;
    uint32_t next_rseq, dropped;      /* records */
    uint32_t last_command;            /* whose result is kept below */
    uint32_t syncs, schema, log_number, time_token;
    hg_value_t result;
    uint8_t nonce[HG_NONCE_BYTES];
#if HG_WITH_AUTH
    uint32_t tx_counter, rx_counter;
    uint8_t session_key[HG_KEY_BYTES];
#endif
#if HG_WITH_UPDATE
    hg_fw_status_t fw_status;
#endif
    uint8_t rx[HG_MTU + HG_STUFFING_BYTES + 1];
    uint8_t tx[HG_MTU + HG_STUFFING_BYTES + 2];
    uint8_t queue[HG_QUEUE_BYTES];
} hg_link_t;

/* Start. HG_BAD_ARGUMENT if a callback is missing, or if texts are so long that HELLO or a description does not fit. */
hg_status_t hg_link_init(hg_link_t *link, const hg_device_t *device, const hg_port_t *port);

/* Take bytes from the line, in pieces of any size. Commands and updates are executed from here. */
void hg_link_receive(hg_link_t *link, const uint8_t *data, size_t len);

/* Send what is due: answers, readings, repeats, calls. Call it often, also when the line is ready again. */
void hg_link_poll(hg_link_t *link);

/* Queue what was measured just now. HG_FULL: there was no space; the gateway sees the gap. */
hg_status_t hg_link_record(hg_link_t *link, const hg_sample_t *samples, size_t count);

/* Send a line (UTF-8) for the gateway's log, now or never: HG_DOWN without a session, HG_FULL while another frame is
 * leaving; in both cases the gateway sees from the numbers that a line is missing. */
hg_status_t hg_link_log(hg_link_t *link, hg_level_t level, const char *text);

bool hg_link_is_up(const hg_link_t *link);       /* there is a session, and the gateway has shown that it takes part */
bool hg_link_is_idle(const hg_link_t *link);     /* nothing is waiting to be written: a good moment for a reset */

#endif
