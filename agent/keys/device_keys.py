"""The keys of a device: for signing messages, for signing archives, and for encrypting its other keys."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from agent.keys.secret import Secret
from protocol.binding import Binding, binding_statement, sign_binding
from protocol.errors import Corrupt
from protocol.ethereum import Signer, checksum_address

if TYPE_CHECKING:
    from nacl.signing import SigningKey

SECRET_BYTES = 32
OTHER_DEVICE = "the private keys and the public keys belong to different devices"


class PublicPart(NamedTuple):
    """The unencrypted part of a key file: the fields of a binding that is not verified yet."""

    address: bytes
    archive_key: bytes
    signature: bytes

    @property
    def binding(self) -> Binding:
        """Verified by recovering the signer, which costs nearly a megabyte of tables in libsecp256k1.

        Raises: Corrupt if another device signed it.
        """
        try:
            return Binding(**self._asdict())
        except ValueError as problem:
            raise Corrupt(str(problem)) from None


class DeviceKeys:
    """The three secrets of a device and the public statement that binds the first two.

    `identity` (secp256k1) signs messages, and its address is the device's name. The archive key (Ed25519) signs
    archives. `vault` signs nothing: keys that encrypt other keys are derived from it.
    """

    __slots__ = ("_archive", "_binding", "_stated", "_vault", "address", "identity")

    def __init__(self, *, identity: Secret, archive: Secret, vault: Secret, stated: PublicPart | None = None) -> None:
        """`stated` is what was published for these secrets, if anything.

        Raises: ValueError, naming none of them, unless each is 32 bytes and the first a valid key; Corrupt if another
        identity was stated.
        """
        if not len(identity) == len(archive) == len(vault) == SECRET_BYTES:
            raise ValueError(f"each secret must have {SECRET_BYTES} bytes")
        self.identity = identity
        self._archive = archive
        self._vault = vault
        self._stated = stated
        self._binding: Binding | None = None
        self.address = bytes.fromhex(_signer(identity).address[2:])
        if stated is not None and not self._has_signed(stated):
            raise Corrupt(OTHER_DEVICE)

    @classmethod
    def generate(cls, random_bytes: Callable[[int], bytes], *, identity: Secret | None = None) -> "DeviceKeys":
        """New keys, around an identity that exists already where one is given."""
        return cls(
            identity=Secret(random_bytes(SECRET_BYTES)) if identity is None else identity,
            archive=Secret(random_bytes(SECRET_BYTES)),
            vault=Secret(random_bytes(SECRET_BYTES)),
        )

    @property
    def binding(self) -> Binding:
        """Computed on first use: a device without archives needs no library for their key.

        Raises: Corrupt if another archive key was stated.
        """
        if self._binding is None:
            self._binding = sign_binding(_signer(self.identity), bytes(self._archive_signer().verify_key))
            if self._stated is not None and self._stated.archive_key != self._binding.archive_key:
                raise Corrupt(OTHER_DEVICE)
        return self._binding

    def _has_signed(self, stated: PublicPart) -> bool:
        """A signature over the same statement is always the same (RFC 6979)."""
        signature = _signer(self.identity).sign_statement(binding_statement(self.address, stated.archive_key))
        return (stated.address, stated.signature) == (self.address, signature)

    def sign_archive(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`, as `ArchiveWriter` requires for `sign`."""
        return self._archive_signer().sign(message).signature

    def _archive_signer(self) -> "SigningKey":
        from nacl.signing import SigningKey

        return SigningKey(self._archive.reveal())

    def derive(self, purpose: bytes) -> Secret:
        """A 32-byte key for one purpose (at most 16 bytes of name), always the same for the same device."""
        key = hashlib.blake2b(key=self._vault.reveal(), person=purpose, digest_size=SECRET_BYTES)
        return Secret(key.digest())

    def secrets(self) -> dict[str, Secret]:
        return {"identity": self.identity, "archive": self._archive, "vault": self._vault}

    def __repr__(self) -> str:
        is_complete = hasattr(self, "address")  # a traceback may show it half made
        return f"DeviceKeys({checksum_address(self.address) if is_complete else '…'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("device keys are not copied, pickled or sent anywhere")


def _signer(identity: Secret) -> Signer:
    """Raises: ValueError, without the secret."""
    try:
        return Signer(identity.reveal())
    except ValueError:
        raise ValueError("the identity is not a secp256k1 private key") from None


def binding_as_json(binding: Binding) -> dict[str, str]:
    """The public keys of a device, for a collector's allow-list."""
    return {
        "device": checksum_address(binding.address),
        "archive_key": binding.archive_key.hex(),
        "binding": "0x" + binding.signature.hex(),
    }
