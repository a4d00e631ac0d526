#include "hg_manifest.h"

#include "hg_slot.h"

#define FORMAT_VERSION 1u
#define FIELDS 6u

enum { UNSIGNED = 0, BYTES = 2, TEXT = 3, ARRAY = 4 }; /* CBOR's major types */

static const uint8_t SIGNED_AS[] = {'h', 'e', 'a', 'd', 'g', 'a', 't', 'e', ' ', 'f',
                                    'i', 'r', 'm', 'w', 'a', 'r', 'e', ' ', '1', '\n'};

typedef struct {
    const uint8_t *data;
    size_t length, place;
} reader_t;

/* An item's head in its shortest form, with an argument of at most 32 bits. */
static bool read_head(reader_t *reader, unsigned major, uint32_t *argument)
{
    if (reader->place >= reader->length || reader->data[reader->place] >> 5 != major) {
        return false;
    }
    unsigned form = reader->data[reader->place++] & 31u;
    *argument = form;
    if (form < 24u) {
        return true;
    }
    if (form > 26u) {
        return false;
    }
    size_t width = (size_t)1 << (form - 24u);
    if (reader->length - reader->place < width) {
        return false;
    }
    *argument = 0;
    for (size_t i = 0; i < width; i++) {
        *argument = *argument << 8 | reader->data[reader->place++];
    }
    return *argument >= (form == 24u ? 24u : form == 25u ? 1u << 8 : 1u << 16);
}

static bool read_string(reader_t *reader, unsigned major, const uint8_t **string, size_t *length)
{
    uint32_t argument;
    if (!read_head(reader, major, &argument) || reader->length - reader->place < argument) {
        return false;
    }
    *string = reader->data + reader->place;
    *length = argument;
    reader->place += argument;
    return true;
}

/* Printable ASCII without spaces. */
static bool read_name(reader_t *reader, const uint8_t **name, size_t *length)
{
    if (!read_string(reader, TEXT, name, length)) {
        return false;
    }
    for (size_t i = 0; i < *length; i++) {
        if ((*name)[i] < '!' || (*name)[i] > '~') {
            return false;
        }
    }
    return *length >= 1u && *length <= HG_MANIFEST_MAX_NAME_BYTES;
}

hg_firmware_status_t hg_manifest_parse(hg_manifest_t *manifest, const uint8_t *data, size_t length)
{
    reader_t reader = {data, length, 0};
    uint32_t fields, format;
    size_t digest_length;
    bool is_valid = length <= HG_MANIFEST_MAX_BYTES
        && read_head(&reader, ARRAY, &fields) && fields == FIELDS
        && read_head(&reader, UNSIGNED, &format) && format == FORMAT_VERSION
        && read_name(&reader, &manifest->board, &manifest->board_length)
        && read_name(&reader, &manifest->version, &manifest->version_length)
        && read_head(&reader, UNSIGNED, &manifest->counter)
        && read_head(&reader, UNSIGNED, &manifest->size_bytes)
        && read_string(&reader, BYTES, &manifest->sha512, &digest_length) && digest_length == HG_SHA512_BYTES
        && reader.place == length
        && manifest->size_bytes >= 1u && manifest->size_bytes <= HG_MANIFEST_MAX_IMAGE_BYTES;
    return is_valid ? HG_FIRMWARE_OK : HG_FIRMWARE_BAD_MANIFEST;
}

static bool is_for(const hg_manifest_t *manifest, const char *board)
{
    size_t i = 0;
    while (i < manifest->board_length && board[i] != '\0' && (uint8_t)board[i] == manifest->board[i]) {
        i++;
    }
    return i == manifest->board_length && board[i] == '\0';
}

static bool is_signed(const hg_bootable_t *device, const uint8_t *data, size_t length, const uint8_t *signature)
{
    for (size_t i = 0; i < device->key_count; i++) {
        if (hg_ed25519_verify(device->keys[i], signature, SIGNED_AS, sizeof SIGNED_AS, data, length)) {
            return true;
        }
    }
    return false;
}

hg_firmware_status_t hg_manifest_accept(hg_manifest_t *manifest, const hg_bootable_t *device, uint32_t lowest_counter,
                                        const uint8_t *data, size_t length,
                                        const uint8_t signature[HG_ED25519_SIGNATURE_BYTES])
{
    hg_firmware_status_t status = hg_manifest_parse(manifest, data, length);
    if (status != HG_FIRMWARE_OK) {
        return status;
    }
    if (!is_for(manifest, device->board)) {
        return HG_FIRMWARE_OTHER_BOARD;
    }
    if (manifest->counter < lowest_counter) {
        return HG_FIRMWARE_ROLLED_BACK;
    }
    if (manifest->size_bytes > hg_slot_capacity(device->flash)) {
        return HG_FIRMWARE_TOO_LARGE;
    }
    return is_signed(device, data, length, signature) ? HG_FIRMWARE_OK : HG_FIRMWARE_BAD_SIGNATURE;
}
