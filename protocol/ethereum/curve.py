"""The sizes of keys and signatures on secp256k1, and the interface of a backend."""

from collections.abc import Sequence
from typing import Final, Protocol

DIGEST_BYTES: Final = 32
PRIVATE_KEY_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 64
SIGNATURE_BYTES: Final = 65
V_OFFSET: Final = 27  # v is 27 plus the recovery id, which is 0 or 1
V_VALUES: Final = (V_OFFSET, V_OFFSET + 1)


class PrivateKey(Protocol):
    """A loaded private key. It cannot be printed."""

    @property
    def public_key(self) -> bytes: ...

    def sign(self, digest: bytes) -> bytes:
        """Sign a 32-byte digest."""

    def sign_all(self, digests: Sequence[bytes]) -> list[bytes]:
        """Sign many digests faster than one by one."""


class PublicKey(Protocol):
    """A loaded public key, for many signatures."""

    def verify(self, digest: bytes, signature: bytes) -> bool:
        """Whether this key made r and s. v is ignored; an s in the upper half may be refused."""

    def verify_all(self, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        """Verify many signatures faster than one by one."""


class Backend(Protocol):
    """A library for the curve."""

    def load_private_key(self, secret: bytes) -> PrivateKey:
        """Raises ValueError, without the secret, unless it is 32 bytes of a valid key."""

    def load_public_key(self, public_key: bytes) -> PublicKey:
        """Raises ValueError unless it is 64 bytes of a point on the curve."""

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        """The public key that made the signature; None if no key can have made it."""
