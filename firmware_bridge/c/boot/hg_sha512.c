#include "hg_sha512.h"

static const uint64_t ROUND_CONSTANTS[80] = {
    /* first 64 bits of the fractions of the cube roots of the first 80 primes */
    0x428a2f98d728ae22ull, 0x7137449123ef65cdull, 0xb5c0fbcfec4d3b2full, 0xe9b5dba58189dbbcull, 0x3956c25bf348b538ull,
    0x59f111f1b605d019ull, 0x923f82a4af194f9bull, 0xab1c5ed5da6d8118ull, 0xd807aa98a3030242ull, 0x12835b0145706fbeull,
    0x243185be4ee4b28cull, 0x550c7dc3d5ffb4e2ull, 0x72be5d74f27b896full, 0x80deb1fe3b1696b1ull, 0x9bdc06a725c71235ull,
    0xc19bf174cf692694ull, 0xe49b69c19ef14ad2ull, 0xefbe4786384f25e3ull, 0x0fc19dc68b8cd5b5ull, 0x240ca1cc77ac9c65ull,
    0x2de92c6f592b0275ull, 0x4a7484aa6ea6e483ull, 0x5cb0a9dcbd41fbd4ull, 0x76f988da831153b5ull, 0x983e5152ee66dfabull,
    0xa831c66d2db43210ull, 0xb00327c898fb213full, 0xbf597fc7beef0ee4ull, 0xc6e00bf33da88fc2ull, 0xd5a79147930aa725ull,
    0x06ca6351e003826full, 0x142929670a0e6e70ull, 0x27b70a8546d22ffcull, 0x2e1b21385c26c926ull, 0x4d2c6dfc5ac42aedull,
    0x53380d139d95b3dfull, 0x650a73548baf63deull, 0x766a0abb3c77b2a8ull, 0x81c2c92e47edaee6ull, 0x92722c851482353bull,
    0xa2bfe8a14cf10364ull, 0xa81a664bbc423001ull, 0xc24b8b70d0f89791ull, 0xc76c51a30654be30ull, 0xd192e819d6ef5218ull,
    0xd69906245565a910ull, 0xf40e35855771202aull, 0x106aa07032bbd1b8ull, 0x19a4c116b8d2d0c8ull, 0x1e376c085141ab53ull,
    0x2748774cdf8eeb99ull, 0x34b0bcb5e19b48a8ull, 0x391c0cb3c5c95a63ull, 0x4ed8aa4ae3418acbull, 0x5b9cca4f7763e373ull,
    0x682e6ff3d6b2b8a3ull, 0x748f82ee5defb2fcull, 0x78a5636f43172f60ull, 0x84c87814a1f0ab72ull, 0x8cc702081a6439ecull,
    0x90befffa23631e28ull, 0xa4506cebde82bde9ull, 0xbef9a3f7b2c67915ull, 0xc67178f2e372532bull, 0xca273eceea26619cull,
    0xd186b8c721c0c207ull, 0xeada7dd6cde0eb1eull, 0xf57d4f7fee6ed178ull, 0x06f067aa72176fbaull, 0x0a637dc5a2c898a6ull,
    0x113f9804bef90daeull, 0x1b710b35131c471bull, 0x28db77f523047d84ull, 0x32caab7b40c72493ull, 0x3c9ebe0a15c9bebcull,
    0x431d67c49c100d4cull, 0x4cc5d4becb3e42b6ull, 0x597f299cfc657e2aull, 0x5fcb6fab3ad6faecull, 0x6c44198c4a475817ull,
};

static const uint64_t INITIAL_STATE[8] = {
    /* the same of the square roots of the first 8 primes */
    0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull, 0xa54ff53a5f1d36f1ull,
    0x510e527fade682d1ull, 0x9b05688c2b3e6c1full, 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull,
};

static uint64_t rotate(uint64_t value, unsigned count)
{
    return value >> count | value << (64u - count);
}

static uint64_t load_big_endian(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static void store_big_endian(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (56u - 8u * i));
    }
}

/* The message schedule holds 16 words and replaces each by its successor as it is used. */
static uint64_t next_word(uint64_t w[16], unsigned t)
{
    uint64_t used = w[t & 15u], w1 = w[(t + 1u) & 15u], w14 = w[(t + 14u) & 15u];
    uint64_t s0 = rotate(w1, 1) ^ rotate(w1, 8) ^ w1 >> 7;
    uint64_t s1 = rotate(w14, 19) ^ rotate(w14, 61) ^ w14 >> 6;
    w[t & 15u] = used + s0 + w[(t + 9u) & 15u] + s1;
    return used;
}

static void compress(uint64_t state[8], const uint8_t block[HG_SHA512_BLOCK_BYTES])
{
    uint64_t w[16], v[8];
    for (unsigned i = 0; i < 16; i++) {
        w[i] = load_big_endian(block + 8u * i);
    }
    for (unsigned i = 0; i < 8; i++) {
        v[i] = state[i];
    }
    for (unsigned t = 0; t < 80; t++) {
        uint64_t a = v[0], e = v[4];
        uint64_t sum1 = rotate(e, 14) ^ rotate(e, 18) ^ rotate(e, 41);
        uint64_t sum0 = rotate(a, 28) ^ rotate(a, 34) ^ rotate(a, 39);
        uint64_t choice = (e & v[5]) ^ (~e & v[6]);
        uint64_t majority = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
        uint64_t t1 = v[7] + sum1 + choice + ROUND_CONSTANTS[t] + next_word(w, t);
        for (unsigned i = 7; i > 0; i--) {
            v[i] = v[i - 1u];
        }
        v[4] += t1;
        v[0] = t1 + sum0 + majority;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void hg_sha512_init(hg_sha512_t *hash)
{
    for (unsigned i = 0; i < 8; i++) {
        hash->state[i] = INITIAL_STATE[i];
    }
    hash->length = 0;
}

void hg_sha512_update(hg_sha512_t *hash, const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        size_t place = (size_t)(hash->length % HG_SHA512_BLOCK_BYTES);
        hash->block[place] = data[i];
        hash->length++;
        if (place == HG_SHA512_BLOCK_BYTES - 1u) {
            compress(hash->state, hash->block);
        }
    }
}

void hg_sha512_final(hg_sha512_t *hash, uint8_t digest[HG_SHA512_BYTES])
{
    static const uint8_t END = 0x80, ZERO = 0;
    uint8_t length_in_bits[16] = {0};
    store_big_endian(length_in_bits + 8, hash->length * 8u); /* below 2^61 bytes, so the upper half is zero */
    hg_sha512_update(hash, &END, 1);
    while (hash->length % HG_SHA512_BLOCK_BYTES != HG_SHA512_BLOCK_BYTES - sizeof length_in_bits) {
        hg_sha512_update(hash, &ZERO, 1);
    }
    hg_sha512_update(hash, length_in_bits, sizeof length_in_bits);
    for (unsigned i = 0; i < 8; i++) {
        store_big_endian(digest + 8u * i, hash->state[i]);
    }
}
