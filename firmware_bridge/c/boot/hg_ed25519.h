/* Ed25519 signature verification (RFC 8032), for data that is public: it does not run in constant time.
 *
 * Strict: S must be below the group's order, and R and the key in their one encoding; R is compared as bytes, so a
 * signature has exactly one form. No heap, no state, 1 KiB of stack and 6 million instructions on a Cortex-M3. It
 * checks; it cannot sign.
 *
 * The message is given as a prefix (the domain the signature is for) and the rest, which are hashed one after the other.
 */
#ifndef HG_ED25519_H
#define HG_ED25519_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HG_ED25519_KEY_BYTES 32u
#define HG_ED25519_SIGNATURE_BYTES 64u

bool hg_ed25519_verify(const uint8_t key[HG_ED25519_KEY_BYTES], const uint8_t signature[HG_ED25519_SIGNATURE_BYTES],
                       const uint8_t *prefix, size_t prefix_length, const uint8_t *message, size_t message_length);

#endif
