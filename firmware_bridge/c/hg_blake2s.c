#include "hg_blake2s.h"

#include <stdbool.h>

static const uint32_t iv[8] = {
    0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u,
};

/* Which words of the message each round takes, two to a byte. */
static const uint8_t order[10][8] = {
    {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, {0xea, 0x48, 0x9f, 0xd6, 0x1c, 0x02, 0xb7, 0x53},
    {0xb8, 0xc0, 0x52, 0xfd, 0xae, 0x36, 0x71, 0x94}, {0x79, 0x31, 0xdc, 0xbe, 0x26, 0x5a, 0x40, 0xf8},
    {0x90, 0x57, 0x24, 0xaf, 0xe1, 0xbc, 0x68, 0x3d}, {0x2c, 0x6a, 0x0b, 0x83, 0x4d, 0x75, 0xfe, 0x19},
    {0xc5, 0x1f, 0xed, 0x4a, 0x07, 0x63, 0x92, 0x8b}, {0xdb, 0x7e, 0xc1, 0x39, 0x50, 0xf4, 0x86, 0x2a},
    {0x6f, 0xe9, 0xb3, 0x08, 0xc2, 0xd7, 0x14, 0xa5}, {0xa2, 0x84, 0x76, 0x15, 0xfb, 0x9e, 0x3c, 0xd0},
};

static uint32_t turn(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void mix(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, uint32_t x, uint32_t y)
{
    *a += *b + x;
    *d = turn(*d ^ *a, 16);
    *c += *d;
    *b = turn(*b ^ *c, 12);
    *a += *b + y;
    *d = turn(*d ^ *a, 8);
    *c += *d;
    *b = turn(*b ^ *c, 7);
}

static uint32_t word_at(const hg_blake2s_t *state, unsigned index)
{
    const uint8_t *at = state->block + 4 * index;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void compress(hg_blake2s_t *state, bool is_last)
{
    uint32_t v[16];
    for (unsigned i = 0; i < 8; i++) {
        v[i] = state->h[i];
        v[i + 8] = iv[i];
    }
    v[12] ^= state->count;
    v[14] ^= is_last ? UINT32_MAX : 0;
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 8; i++) {
            unsigned column = i & 3u, shift = i >> 2;      /* first the columns, then the diagonals */
            uint8_t words = order[round][i];
            mix(&v[column], &v[4 + ((column + shift) & 3u)], &v[8 + ((column + 2 * shift) & 3u)],
                &v[12 + ((column + 3 * shift) & 3u)], word_at(state, words >> 4), word_at(state, words & 15u));
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        state->h[i] ^= v[i] ^ v[i + 8];
    }
}

void hg_blake2s_init(hg_blake2s_t *state, const uint8_t key[HG_BLAKE2S_KEY_BYTES], uint8_t digest_bytes)
{
    for (unsigned i = 0; i < 8; i++) {
        state->h[i] = iv[i];
    }
    state->h[0] ^= 0x01010000u ^ (uint32_t)HG_BLAKE2S_KEY_BYTES << 8 ^ digest_bytes;
    state->count = 0;
    state->used = 0;
    state->digest_bytes = digest_bytes;
    hg_blake2s_add(state, key, HG_BLAKE2S_KEY_BYTES);
    while (state->used < HG_BLAKE2S_BLOCK_BYTES) {
        state->block[state->used++] = 0;
    }
}

void hg_blake2s_add(hg_blake2s_t *state, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (state->used == HG_BLAKE2S_BLOCK_BYTES) {       /* only now, as the last block is compressed otherwise */
            state->count += HG_BLAKE2S_BLOCK_BYTES;
            compress(state, false);
            state->used = 0;
        }
        state->block[state->used++] = data[i];
    }
}

void hg_blake2s_end(hg_blake2s_t *state, uint8_t *digest)
{
    state->count += state->used;
    while (state->used < HG_BLAKE2S_BLOCK_BYTES) {
        state->block[state->used++] = 0;
    }
    compress(state, true);
    for (unsigned i = 0; i < state->digest_bytes; i++) {
        digest[i] = (uint8_t)(state->h[i >> 2] >> (8 * (i & 3u)));
    }
}
