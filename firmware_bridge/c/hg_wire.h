/* The link's wire format in pieces: CRC, byte stuffing, and the few kinds of CBOR that it uses. No state.
 * The library's own; applications include headgate_link.h. */
#ifndef HG_WIRE_H
#define HG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32 as in zlib: begin with 0, and hand in the last result to go on. */
uint32_t hg_crc32(uint32_t crc, const uint8_t *data, size_t len);

/* Whether two are equal, in constant time. */
bool hg_is_same(const uint8_t *a, const uint8_t *b, size_t len);

/* Stuff `len` bytes. `out` needs len + len / 254 + 1 bytes, and may overlap `in` if it begins that far before it,
 * less len. Returns the bytes written. */
size_t hg_cobs_encode(uint8_t *out, const uint8_t *in, size_t len);

/* Undo it in place, for bytes without a zero. Returns the bytes left; 0 for what was never stuffed. */
size_t hg_cobs_decode(uint8_t *data, size_t len);

enum {
    HG_CBOR_UINT = 0, HG_CBOR_NEGATIVE = 1, HG_CBOR_BYTES = 2, HG_CBOR_TEXT = 3, HG_CBOR_ARRAY = 4, HG_CBOR_SIMPLE = 7
};
#define HG_CBOR_NULL 22u

typedef struct { uint8_t *data; size_t used; size_t size; } hg_writer_t;      /* used > size: it did not fit */

void hg_put_byte(hg_writer_t *writer, unsigned byte);
void hg_put_raw(hg_writer_t *writer, const uint8_t *data, size_t len);
void hg_put_head(hg_writer_t *writer, unsigned major, uint32_t argument);
void hg_put_uint(hg_writer_t *writer, uint32_t value);
void hg_put_uint64(hg_writer_t *writer, uint32_t high, uint32_t low);
void hg_put_int(hg_writer_t *writer, int32_t value);
void hg_put_null(hg_writer_t *writer);
void hg_put_string(hg_writer_t *writer, unsigned major, const uint8_t *data, size_t len);
void hg_put_text(hg_writer_t *writer, const char *text);
void hg_put_u32(hg_writer_t *writer, uint32_t value);                          /* 4 bytes, little-endian; not CBOR */

typedef struct { const uint8_t *data; size_t left; bool failed; } hg_reader_t; /* failed: what was read is 0 */

uint32_t hg_get_u32(const uint8_t *data);                                      /* opposite of hg_put_u32 */
uint32_t hg_get_head(hg_reader_t *reader, unsigned *major);                    /* at most 32 bits; UINT_MAX if failed */
uint32_t hg_get_of(hg_reader_t *reader, unsigned major);                       /* the argument of a head of this kind */
const uint8_t *hg_get_span(hg_reader_t *reader, size_t len);                   /* the next bytes; NULL if too few */
bool hg_get_end(const hg_reader_t *reader);                                    /* all read, nothing wrong */

#endif
