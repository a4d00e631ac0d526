"""The one object that holds a private key."""

import binascii
from typing import NoReturn, Self

from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.secp256k1 import Backend, default_backend

__all__ = ["Signer"]


class Signer:
    """Signs texts with one secp256k1 key, the way Ethereum wallets do (EIP-191).

    Nothing about it tells the key: not its repr, not an error, and it refuses to be pickled or copied.
    """

    __slots__ = ("_key", "address", "public_key", "sign_digests")

    def __init__(self, secret: bytes, *, backend: Backend | None = None) -> None:
        """Raises ValueError, without the secret, unless it is 32 bytes of a valid key."""
        self._key = (backend or default_backend()).load_private_key(secret)
        self.sign_digests = self._key.sign_all  # each of 32 bytes → r ‖ s ‖ v
        self.public_key = self._key.public_key  # x ‖ y, 64 bytes
        self.address = address_of(self.public_key)  # lower case, with 0x

    @classmethod
    def from_hex(cls, secret: str, *, backend: Backend | None = None) -> Self:
        """The key as 64 hex digits, with or without 0x."""
        try:
            raw = binascii.unhexlify(secret.removeprefix("0x"))
        except ValueError:
            raise ValueError("the private key is not hex digits") from None
        return cls(raw, backend=backend)

    def sign(self, payload: str | bytes) -> str:
        """The signature over the payload: 0x and the lower-case hex of r ‖ s ‖ v, v being 27 or 28."""
        signed = payload.encode() if isinstance(payload, str) else payload
        return "0x" + self._key.sign(eip191_digest(signed)).hex()

    def __repr__(self) -> str:
        address = getattr(self, "address", None)  # a traceback may show it half made
        return f"Signer(address={address!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Signer holds a private key and is not copied, pickled or sent anywhere")
