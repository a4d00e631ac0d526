/* SHA-512 (FIPS 180-4), over any number of pieces. 208 bytes of state, owned by the caller. */
#ifndef HG_SHA512_H
#define HG_SHA512_H

#include <stddef.h>
#include <stdint.h>

#define HG_SHA512_BYTES 64u
#define HG_SHA512_BLOCK_BYTES 128u

typedef struct {
    uint64_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[HG_SHA512_BLOCK_BYTES];
} hg_sha512_t;

void hg_sha512_init(hg_sha512_t *hash);
void hg_sha512_update(hg_sha512_t *hash, const uint8_t *data, size_t length);
void hg_sha512_final(hg_sha512_t *hash, uint8_t digest[HG_SHA512_BYTES]);

#endif
