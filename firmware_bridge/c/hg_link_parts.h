/* What the library's files share: the header of a frame, and their internal functions. Applications include headgate_link.h.
 *
 *   headgate_link.c  sessions, what comes in, what the application calls
 *   hg_sending.c     what goes out: frames, answers, readings
 *   hg_proof.c       the proof in authenticated frames
 *   hg_wire.c        bytes: CRC, stuffing, CBOR
 */
#ifndef HG_LINK_PARTS_H
#define HG_LINK_PARTS_H

#include "headgate_link.h"
#include "hg_wire.h"

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
#define BODY_AT (1u + HG_STUFFING_BYTES)                                            /* in tx: space to stuff in place */

static inline void hg_end_session(hg_link_t *link)
{
    link->session = 0;
    link->is_open = false;
    link->answers = 0;
}

/* Sending. A frame is begun, its payload put into the writer, and ended; it then stands in tx. */
hg_writer_t hg_begin_frame(hg_link_t *link, unsigned type, uint32_t items);      /* items: 0, or an array's */
void hg_end_frame(hg_link_t *link, hg_writer_t *body);
void hg_put_uptime(const hg_link_t *link, hg_writer_t *writer);
void hg_put_description(const hg_link_t *link, hg_writer_t *body, uint32_t index);
void hg_write_hello(hg_link_t *link);
bool hg_write_next(hg_link_t *link);      /* put the next frame into tx, if there is one */
bool hg_flush(hg_link_t *link);           /* hand tx to the board; whether all of it was taken */

#if HG_WITH_AUTH
bool hg_has_key(const hg_link_t *link);
void hg_derive_session_key(hg_link_t *link);
bool hg_is_proved(hg_link_t *link, const uint8_t *body, size_t len);      /* by the gateway, in this session, and anew */
void hg_put_proof(hg_link_t *link, hg_writer_t *body);
#else
#define hg_has_key(link) false
#define hg_is_proved(link, body, len) true
#endif

#endif
