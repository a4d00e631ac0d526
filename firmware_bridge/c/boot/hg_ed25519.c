#include "hg_ed25519.h"

#include "hg_sha512.h"

/* 256 bits, least significant limb first. As an element of the field it stands for its remainder by PRIME, and is any
 * of the up to three numbers that do; `reduce` gives the one below PRIME. 2^256 is 38 more than a multiple of PRIME. */
typedef struct {
    uint32_t limb[8];
} number_t;

/* Extended coordinates on -x^2 + y^2 = 1 + D x^2 y^2: x = X/Z, y = Y/Z, x y = T/Z. */
typedef struct {
    number_t x, y, z, t;
} point_t;

static const number_t ONE = {{1, 0, 0, 0, 0, 0, 0, 0}};
static const number_t WRAP = {{38, 0, 0, 0, 0, 0, 0, 0}};
static const number_t PRIME = {{0xffffffedu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu,
                                0xffffffffu, 0x7fffffffu}}; /* 2^255 - 19 */
static const number_t PRIME_MINUS_2 = {{0xffffffebu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu,
                                        0xffffffffu, 0x7fffffffu}}; /* the exponent that inverts */
static const number_t ROOT_EXPONENT = {{0xfffffffdu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu,
                                        0xffffffffu, 0x0fffffffu}}; /* (PRIME - 5) / 8 */
static const number_t ORDER = {{0x5cf5d3edu, 0x5812631au, 0xa2f79cd6u, 0x14def9deu, 0x00000000u, 0x00000000u,
                                0x00000000u, 0x10000000u}}; /* of the base point */
static const number_t D = {
    {0x135978a3u, 0x75eb4dcau, 0x4141d8abu, 0x00700a4du, 0x7779e898u, 0x8cc74079u, 0x2b6ffe73u, 0x52036ceeu}};
static const number_t TWO_D = {
    {0x26b2f159u, 0xebd69b94u, 0x8283b156u, 0x00e0149au, 0xeef3d130u, 0x198e80f2u, 0x56dffce7u, 0x2406d9dcu}};
static const number_t ROOT_OF_MINUS_ONE = {
    {0x4a0ea0b0u, 0xc4ee1b27u, 0xad2fe478u, 0x2f431806u, 0x3dfbd7a7u, 0x2b4d0099u, 0x4fc1df0bu, 0x2b832480u}};
static const point_t NEUTRAL = {{{0}}, {{1}}, {{1}}, {{0}}};
static const point_t BASE = {
    {{0x8f25d51au, 0xc9562d60u, 0x9525a7b2u, 0x692cc760u, 0xfdd6dc5cu, 0xc0a4e231u, 0xcd6e53feu, 0x216936d3u}},
    {{0x66666658u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u}},
    {{1}},
    {{0xa5b7dda3u, 0x6dde8ab3u, 0x775152f5u, 0x20f09f80u, 0x64abe37du, 0x66ea4e8eu, 0xd78b7665u, 0x67875f0fu}},
};

/* ---- numbers ---- */

/* Gives the carry. */
static uint32_t add(number_t *sum, const number_t *a, const number_t *b)
{
    uint64_t carry = 0;
    for (unsigned i = 0; i < 8; i++) {
        carry += (uint64_t)a->limb[i] + b->limb[i];
        sum->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return (uint32_t)carry;
}

/* Gives the borrow. */
static uint32_t subtract(number_t *difference, const number_t *a, const number_t *b)
{
    uint32_t borrow = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t limb = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        difference->limb[i] = (uint32_t)limb;
        borrow = (uint32_t)(limb >> 32) & 1u;
    }
    return borrow;
}

/* The remainder by a modulus that goes into `number` a few times at most. */
static void reduce(number_t *number, const number_t *modulus)
{
    number_t less;
    while (subtract(&less, number, modulus) == 0) {
        *number = less;
    }
}

static bool is_below(const number_t *number, const number_t *bound)
{
    number_t ignored;
    return subtract(&ignored, number, bound) != 0;
}

static uint32_t bit(const number_t *number, unsigned index)
{
    return number->limb[index / 32u] >> (index % 32u) & 1u;
}

/* Little-endian. */
static void load(number_t *number, const uint8_t bytes[32])
{
    for (unsigned i = 0; i < 8; i++) {
        const uint8_t *b = bytes + 4u * i;
        number->limb[i] = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    }
}

/* ---- the field: remainders by PRIME ---- */

/* Add `overflow` times 2^256, for an overflow of at most a few dozen. */
static void fold(number_t *number, uint32_t overflow)
{
    uint64_t carry = (uint64_t)overflow * 38u;
    for (unsigned i = 0; i < 8; i++) {
        carry += number->limb[i];
        number->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    number->limb[0] += (uint32_t)carry * 38u; /* after a carry the number is small: this one cannot carry */
}

static void field_add(number_t *sum, const number_t *a, const number_t *b)
{
    fold(sum, add(sum, a, b));
}

static void field_subtract(number_t *difference, const number_t *a, const number_t *b)
{
    uint32_t borrow = subtract(difference, a, b);
    while (borrow != 0) {
        borrow = subtract(difference, difference, &WRAP); /* twice at most */
    }
}

static void field_multiply(number_t *product, const number_t *a, const number_t *b)
{
    uint32_t wide[16] = {0};
    uint64_t carry;
    for (unsigned i = 0; i < 8; i++) {
        carry = 0;
        for (unsigned j = 0; j < 8; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + wide[i + j];
            wide[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        wide[i + 8u] = (uint32_t)carry;
    }
    carry = 0;
    for (unsigned i = 0; i < 8; i++) {
        carry += (uint64_t)wide[i + 8u] * 38u + wide[i];
        product->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    fold(product, (uint32_t)carry);
}

static void field_power(number_t *power, const number_t *base, const number_t *exponent)
{
    number_t result = ONE;
    for (unsigned i = 255; i-- > 0;) {
        field_multiply(&result, &result, &result);
        if (bit(exponent, i)) {
            field_multiply(&result, &result, base);
        }
    }
    *power = result;
}

static bool field_equal(const number_t *a, const number_t *b)
{
    number_t difference;
    field_subtract(&difference, a, b);
    reduce(&difference, &PRIME);
    for (unsigned i = 0; i < 8; i++) {
        if (difference.limb[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- the curve ---- */

/* The complete formula: it also doubles, and takes the neutral point. `sum` may be a or b. */
static void point_add(point_t *sum, const point_t *a, const point_t *b)
{
    number_t p, q, c, d, e;
    field_subtract(&p, &a->y, &a->x);
    field_subtract(&q, &b->y, &b->x);
    field_multiply(&p, &p, &q);
    field_add(&q, &a->y, &a->x);
    field_add(&e, &b->y, &b->x);
    field_multiply(&q, &q, &e);
    field_multiply(&c, &a->t, &b->t);
    field_multiply(&c, &c, &TWO_D);
    field_multiply(&d, &a->z, &b->z);
    field_add(&d, &d, &d);
    field_subtract(&e, &q, &p);
    field_add(&q, &q, &p);
    field_subtract(&p, &d, &c);
    field_add(&d, &d, &c);
    field_multiply(&sum->x, &e, &p);
    field_multiply(&sum->y, &d, &q);
    field_multiply(&sum->t, &e, &q);
    field_multiply(&sum->z, &p, &d);
}

static void point_negate(point_t *point)
{
    const number_t zero = {{0}};
    field_subtract(&point->x, &zero, &point->x);
    field_subtract(&point->t, &zero, &point->t);
}

/* x from y, up to its sign: the root of (y^2 - 1) / (D y^2 + 1). RFC 8032, 5.1.3. */
static bool recover_x(number_t *x, const number_t *y)
{
    number_t u, v, w;
    field_multiply(&w, y, y);
    field_subtract(&u, &w, &ONE);
    field_multiply(&v, &w, &D);
    field_add(&v, &v, &ONE);
    field_multiply(&w, &v, &v);
    field_multiply(&w, &w, &v); /* v^3 */
    field_multiply(x, &w, &w);
    field_multiply(x, x, &v);
    field_multiply(x, x, &u); /* u v^7 */
    field_power(x, x, &ROOT_EXPONENT);
    field_multiply(x, x, &w);
    field_multiply(x, x, &u);
    field_multiply(&w, x, x);
    field_multiply(&w, &w, &v); /* v x^2, which is u, or -u if the root is still to be turned */
    if (field_equal(&w, &u)) {
        return true;
    }
    field_multiply(x, x, &ROOT_OF_MINUS_ONE);
    field_add(&w, &w, &u);
    return field_equal(&w, &PRIME);
}

static bool point_decode(point_t *point, const uint8_t bytes[32])
{
    uint32_t sign = bytes[31] >> 7;
    load(&point->y, bytes);
    point->y.limb[7] &= 0x7fffffffu;
    if (!is_below(&point->y, &PRIME) || !recover_x(&point->x, &point->y)) {
        return false;
    }
    reduce(&point->x, &PRIME);
    if (bit(&point->x, 0) != sign) {
        field_subtract(&point->x, &PRIME, &point->x);
        if (!is_below(&point->x, &PRIME)) {
            return false; /* zero has no other sign */
        }
    }
    point->z = ONE;
    field_multiply(&point->t, &point->x, &point->y);
    return true;
}

static bool point_encodes_as(const point_t *point, const uint8_t bytes[32])
{
    number_t inverse, x, y, given;
    field_power(&inverse, &point->z, &PRIME_MINUS_2);
    field_multiply(&x, &point->x, &inverse);
    field_multiply(&y, &point->y, &inverse);
    reduce(&x, &PRIME);
    reduce(&y, &PRIME);
    y.limb[7] |= bit(&x, 0) << 31;
    load(&given, bytes);
    for (unsigned i = 0; i < 8; i++) {
        if (y.limb[i] != given.limb[i]) {
            return false;
        }
    }
    return true;
}

/* s times the base point plus k times `point`, both in one run over the bits. */
static void combine(point_t *result, const number_t *s, const number_t *k, const point_t *point)
{
    point_t both;
    point_add(&both, &BASE, point);
    *result = NEUTRAL;
    for (unsigned i = 253; i-- > 0;) { /* both are below ORDER, which has 253 bits */
        uint32_t in_s = bit(s, i), in_k = bit(k, i);
        point_add(result, result, result);
        if (in_s && in_k) {
            point_add(result, result, &both);
        } else if (in_s) {
            point_add(result, result, &BASE);
        } else if (in_k) {
            point_add(result, result, point);
        }
    }
}

/* The digest of R, key and message, as a number below ORDER. */
static void challenge(number_t *k, const uint8_t r[32], const uint8_t key[32], const uint8_t *prefix,
                      size_t prefix_length, const uint8_t *message, size_t message_length)
{
    hg_sha512_t hash;
    uint8_t digest[HG_SHA512_BYTES];
    hg_sha512_init(&hash);
    hg_sha512_update(&hash, r, 32);
    hg_sha512_update(&hash, key, 32);
    hg_sha512_update(&hash, prefix, prefix_length);
    hg_sha512_update(&hash, message, message_length);
    hg_sha512_final(&hash, digest);
    *k = (number_t){{0}};
    for (unsigned i = 512; i-- > 0;) {
        (void)add(k, k, k);
        k->limb[0] |= (uint32_t)digest[i / 8u] >> (i % 8u) & 1u;
        reduce(k, &ORDER);
    }
}

bool hg_ed25519_verify(const uint8_t key[HG_ED25519_KEY_BYTES], const uint8_t signature[HG_ED25519_SIGNATURE_BYTES],
                       const uint8_t *prefix, size_t prefix_length, const uint8_t *message, size_t message_length)
{
    number_t s, k;
    point_t public_point, result;
    load(&s, signature + 32);
    if (!is_below(&s, &ORDER) || !point_decode(&public_point, key)) {
        return false;
    }
    challenge(&k, signature, key, prefix, prefix_length, message, message_length);
    point_negate(&public_point);
    combine(&result, &s, &k, &public_point);
    return point_encodes_as(&result, signature);
}
