#include "hg_wire.h"

#include <limits.h>

#ifndef HG_CRC32_EXTERN
uint32_t hg_crc32(uint32_t crc, const uint8_t *data, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}
#endif

/* ---- Stuffing ---- */

#define FULL_CODE 255u

bool hg_is_same(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference |= a[i] ^ b[i];
    }
    return difference == 0;
}

size_t hg_cobs_encode(uint8_t *out, const uint8_t *in, size_t len)
{
    size_t code_at = 0, used = 1;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = in[i];
        if (byte != 0) {
            out[used++] = byte;
        }
        if (byte == 0 || (used - code_at == FULL_CODE && i + 1 < len)) {
            out[code_at] = (uint8_t)(used - code_at);
            code_at = used++;
        }
    }
    out[code_at] = (uint8_t)(used - code_at);
    return used;
}

size_t hg_cobs_decode(uint8_t *data, size_t len)
{
    size_t from = 0, to = 0;
    while (from < len) {
        uint8_t code = data[from];
        size_t end = from + code;
        if (code == 0 || end > len) {
            return 0;
        }
        while (++from < end) {
            data[to++] = data[from];
        }
        if (code != FULL_CODE && end < len) {
            data[to++] = 0;
        }
    }
    return to;
}

/* ---- CBOR, writing ---- */

void hg_put_byte(hg_writer_t *writer, unsigned byte)
{
    if (writer->used < writer->size) {
        writer->data[writer->used] = (uint8_t)byte;
    }
    writer->used++;
}

void hg_put_raw(hg_writer_t *writer, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        hg_put_byte(writer, data[i]);
    }
}

static void put_big_endian(hg_writer_t *writer, uint32_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        hg_put_byte(writer, value >> (8 * bytes));
    }
}

void hg_put_head(hg_writer_t *writer, unsigned major, uint32_t argument)
{
    unsigned bytes = argument < 24 ? 0 : argument <= 0xff ? 1 : argument <= 0xffff ? 2 : 4;
    uint32_t low = bytes == 0 ? argument : bytes == 4 ? 26u : 23u + bytes;
    hg_put_byte(writer, major << 5 | low);
    put_big_endian(writer, argument, bytes);
}

void hg_put_uint(hg_writer_t *writer, uint32_t value)
{
    hg_put_head(writer, HG_CBOR_UINT, value);
}

void hg_put_uint64(hg_writer_t *writer, uint32_t high, uint32_t low)
{
    if (high == 0) {
        hg_put_uint(writer, low);
        return;
    }
    hg_put_byte(writer, HG_CBOR_UINT << 5 | 27u);
    put_big_endian(writer, high, 4);
    put_big_endian(writer, low, 4);
}

void hg_put_int(hg_writer_t *writer, int32_t value)
{
    if (value < 0) {
        hg_put_head(writer, HG_CBOR_NEGATIVE, ~(uint32_t)value);      /* -1 - value */
    } else {
        hg_put_head(writer, HG_CBOR_UINT, (uint32_t)value);
    }
}

void hg_put_null(hg_writer_t *writer)
{
    hg_put_head(writer, HG_CBOR_SIMPLE, HG_CBOR_NULL);
}

void hg_put_string(hg_writer_t *writer, unsigned major, const uint8_t *data, size_t len)
{
    hg_put_head(writer, major, (uint32_t)len);
    hg_put_raw(writer, data, len);
}

void hg_put_text(hg_writer_t *writer, const char *text)
{
    size_t len = 0;
    while (text[len] != '\0') {
        len++;
    }
    hg_put_string(writer, HG_CBOR_TEXT, (const uint8_t *)text, len);
}

void hg_put_u32(hg_writer_t *writer, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++, value >>= 8) {
        hg_put_byte(writer, value);
    }
}

/* ---- CBOR, reading ---- */

uint32_t hg_get_u32(const uint8_t *data)
{
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static uint32_t fail(hg_reader_t *reader)
{
    reader->failed = true;
    reader->left = 0;
    return 0;
}

uint32_t hg_get_head(hg_reader_t *reader, unsigned *major)
{
    const uint8_t *at = hg_get_span(reader, 1);
    *major = UINT_MAX;
    if (at == NULL) {
        return 0;
    }
    unsigned kind = *at >> 5;
    uint32_t argument = *at & 31u;
    if (argument >= 24) {
        size_t bytes = (size_t)1 << (argument - 24);
        if (bytes > 4 || (at = hg_get_span(reader, bytes)) == NULL) {
            return fail(reader);
        }
        for (argument = 0; bytes > 0; bytes--) {
            argument = argument << 8 | *at++;
        }
    }
    *major = kind;
    return argument;
}

uint32_t hg_get_of(hg_reader_t *reader, unsigned major)
{
    unsigned found;
    uint32_t argument = hg_get_head(reader, &found);
    return found == major ? argument : fail(reader);
}

const uint8_t *hg_get_span(hg_reader_t *reader, size_t len)
{
    const uint8_t *start = reader->data;
    if (len > reader->left) {
        (void)fail(reader);
        return NULL;
    }
    reader->data += len;
    reader->left -= len;
    return start;
}

bool hg_get_end(const hg_reader_t *reader)
{
    return !reader->failed && reader->left == 0;
}
