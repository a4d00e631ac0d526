"""The curve, by either of two libraries that give the same results.

| backend | library | use |
|---|---|---|
| `CoincurveBackend` | libsecp256k1 through coincurve | the default: a signature in some 30 µs |
| `EthKeysBackend` | eth-keys | where coincurve has no wheel; then in pure Python, some fifty times slower |

A signature here is 65 bytes, r ‖ s ‖ v, v being 27 or 28; a public key is 64 bytes, x ‖ y. Signatures are
deterministic (RFC 6979) and have the lower s. A backend is imported when it is first asked for, not before.
"""

import functools
from collections.abc import Sequence
from typing import Final, Protocol

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

DIGEST_BYTES: Final = 32
PRIVATE_KEY_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 64
SIGNATURE_BYTES: Final = 65
V_OFFSET: Final = 27  # v is 27 plus the recovery id, which is 0 or 1
V_VALUES: Final = (V_OFFSET, V_OFFSET + 1)


class PrivateKey(Protocol):
    """A key ready to sign. It cannot be shown."""

    @property
    def public_key(self) -> bytes: ...

    def sign(self, digest: bytes) -> bytes:
        """Sign a 32-byte digest."""

    def sign_all(self, digests: Sequence[bytes]) -> list[bytes]:
        """The same for many, for less."""


class PublicKey(Protocol):
    """A key ready to check many signatures."""

    def verify(self, digest: bytes, signature: bytes) -> bool:
        """Whether this key made r and s. Which v it is, is not looked at; an upper s may be refused."""

    def verify_all(self, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        """The same for many, for less."""


class Backend(Protocol):
    """What either library offers."""

    def load_private_key(self, secret: bytes) -> PrivateKey:
        """Raises ValueError, which does not tell the secret, unless it is 32 bytes of a valid key."""

    def load_public_key(self, public_key: bytes) -> PublicKey:
        """Raises ValueError unless it is 64 bytes of a point on the curve."""

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        """The public key that made the signature; None where no key can have made it."""


@functools.cache
def default_backend() -> Backend:
    """coincurve where it is installed, else eth-keys."""
    try:
        from protocol.ethereum.coincurve_backend import CoincurveBackend
    except ImportError:
        from protocol.ethereum.eth_keys_backend import EthKeysBackend

        return EthKeysBackend()
    return CoincurveBackend()
