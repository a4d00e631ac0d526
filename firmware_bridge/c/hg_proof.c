/* The proof that ends an authenticated frame: a counter, and a keyed digest of direction, body and counter.
 * Needed with HG_WITH_AUTH only; empty without it. */
#include "hg_link_parts.h"

#if HG_WITH_AUTH
#include "hg_blake2s.h"

bool hg_has_key(const hg_link_t *link)
{
    return link->device->key != NULL;
}

void hg_derive_session_key(hg_link_t *link)
{
    static const uint8_t label[] = {'h', 'e', 'a', 'd', 'g', 'a', 't', 'e', ' ', 'l', 'i', 'n', 'k', ' ', '1'};
    hg_blake2s_t hash;
    uint8_t syncs[4];
    hg_writer_t writer = {syncs, 0, sizeof syncs};
    hg_put_u32(&writer, link->syncs);
    hg_blake2s_init(&hash, link->device->key, HG_KEY_BYTES);
    hg_blake2s_add(&hash, label, sizeof label);
    hg_blake2s_add(&hash, link->nonce, HG_NONCE_BYTES);
    hg_blake2s_add(&hash, link->device->boot_id, HG_BOOT_ID_BYTES);
    hg_blake2s_add(&hash, syncs, sizeof syncs);
    hg_blake2s_end(&hash, link->session_key);
    link->tx_counter = 0;
    link->rx_counter = 0;
}

static void compute_tag(const hg_link_t *link, uint8_t direction, const uint8_t *covered, size_t len, uint8_t tag[8])
{
    hg_blake2s_t hash;
    hg_blake2s_init(&hash, link->session_key, 8);
    hg_blake2s_add(&hash, &direction, 1);
    hg_blake2s_add(&hash, covered, len);
    hg_blake2s_end(&hash, tag);
}

bool hg_is_proved(hg_link_t *link, const uint8_t *body, size_t len)
{
    uint8_t tag[8];
    if (len < HEADER_BYTES + PROOF_BYTES) {
        return false;
    }
    compute_tag(link, 0, body, len - sizeof tag, tag);
    uint32_t counter = hg_get_u32(body + len - PROOF_BYTES);
    if (!hg_is_same(tag, body + len - sizeof tag, sizeof tag) || counter < link->rx_counter || counter == UINT32_MAX) {
        return false;
    }
    link->rx_counter = counter + 1;
    return true;
}

void hg_put_proof(hg_link_t *link, hg_writer_t *body)
{
    uint8_t tag[8];
    hg_put_u32(body, link->tx_counter);
    compute_tag(link, 1, body->data, body->used, tag);
    hg_put_raw(body, tag, sizeof tag);
    if (++link->tx_counter == UINT32_MAX) {
        hg_end_session(link);
    }
}
#endif
