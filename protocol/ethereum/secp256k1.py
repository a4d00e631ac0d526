"""The choice between two backends for secp256k1, which give the same results.

| backend | library | use |
|---|---|---|
| `CoincurveBackend` | libsecp256k1 through coincurve | the default: a signature in some 30 µs |
| `EthKeysBackend` | eth-keys | where coincurve has no wheel; then in pure Python, some fifty times slower |

A signature here is 65 bytes, r ‖ s ‖ v, v being 27 or 28; a public key is 64 bytes, x ‖ y. Signatures are
deterministic (RFC 6979) and have the lower s. A backend is imported on its first use.

Any thread may use a backend and its keys at any time: the collector recovers in several worker threads, and the agent
signs in its pipeline while the thread of a publisher logs in.
"""

import functools

from protocol.ethereum.curve import (
    DIGEST_BYTES,
    PRIVATE_KEY_BYTES,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    V_OFFSET,
    V_VALUES,
    Backend,
    PrivateKey,
    PublicKey,
)

__all__ = [
    "DIGEST_BYTES",
    "PRIVATE_KEY_BYTES",
    "PUBLIC_KEY_BYTES",
    "SIGNATURE_BYTES",
    "V_OFFSET",
    "V_VALUES",
    "Backend",
    "PrivateKey",
    "PublicKey",
    "default_backend",
]


@functools.cache
def default_backend() -> Backend:
    """coincurve where it is installed, else eth-keys."""
    try:
        from protocol.ethereum.coincurve_backend import CoincurveBackend
    except ImportError:
        from protocol.ethereum.eth_keys_backend import EthKeysBackend

        return EthKeysBackend()
    return CoincurveBackend()
