/* Keyed BLAKE2s (RFC 7693), for the link's session keys and tags. Needed with HG_WITH_AUTH only. */
#ifndef HG_BLAKE2S_H
#define HG_BLAKE2S_H

#include <stddef.h>
#include <stdint.h>

#define HG_BLAKE2S_BLOCK_BYTES 64
#define HG_BLAKE2S_KEY_BYTES 32

typedef struct {
    uint32_t h[8];
    uint32_t count;                              /* bytes taken; messages here are far below 4 GiB */
    uint8_t block[HG_BLAKE2S_BLOCK_BYTES];
    uint8_t used;                                /* of the block */
    uint8_t digest_bytes;
} hg_blake2s_t;

void hg_blake2s_init(hg_blake2s_t *state, const uint8_t key[HG_BLAKE2S_KEY_BYTES], uint8_t digest_bytes);
void hg_blake2s_add(hg_blake2s_t *state, const uint8_t *data, size_t len);
void hg_blake2s_end(hg_blake2s_t *state, uint8_t *digest);

#endif
