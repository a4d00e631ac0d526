"""RSA encryption of group keys for a subscriber: OAEP padding (SHA-1, MGF1 with SHA-1, no label), in lower-case hex.

A subscriber sends its public key as PEM: SubjectPublicKeyInfo between `-----BEGIN PUBLIC KEY-----` and
`-----END PUBLIC KEY-----` with a line end after each, the base64 between in lines of 64 or, from browsers,
in one. Keys have 4096 bits; other sizes are accepted within bounds.

The padding and new keys need randomness, which OpenSSL reads from the operating system.
"""

import binascii
from typing import TYPE_CHECKING, Final, NoReturn, Self

from protocol.errors import Corrupt
from protocol.streamr.group_keys.group_key import GroupKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import OAEP
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

RSA_KEY_BITS: Final = 4096
MIN_RSA_KEY_BITS: Final = 2048
MAX_RSA_KEY_BITS: Final = 8192
MAX_PEM_CHARACTERS: Final = 8_000

_PUBLIC_HEADER: Final = "-----BEGIN PUBLIC KEY-----"
_PUBLIC_FOOTER: Final = "-----END PUBLIC KEY-----\n"


class RsaPublicKey:
    """A subscriber's key, to encrypt group keys for it."""

    __slots__ = ("_key", "pem")

    def __init__(self, pem: str) -> None:
        """Raises `Corrupt` where the text is not the PEM of an RSA public key of an acceptable size."""
        self._key = _load_public_key(pem)
        self.pem = pem

    def encrypt(self, key: GroupKey) -> str:
        """The hex that only the owner of the private key can decrypt. It differs every time."""
        return self._key.encrypt(key.key, _oaep()).hex()


class RsaKeyPair:
    """A subscriber's own key, to decrypt the group keys it receives. Masked in `repr`, and never copied."""

    __slots__ = ("_key", "public_key_pem")

    def __init__(self, key: "RSAPrivateKey") -> None:
        self._key = key
        self.public_key_pem = _public_pem(key)

    @classmethod
    def generate(cls) -> Self:
        """A new key of 4096 bits. It takes seconds on a small device: do it in a thread."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        return cls(rsa.generate_private_key(public_exponent=65537, key_size=RSA_KEY_BITS))

    def decrypt(self, group_key_id: str, encrypted_hex: str) -> GroupKey:
        """Raises `Corrupt` where it was not encrypted for this key, or is no group key."""
        try:
            return GroupKey(group_key_id, self._key.decrypt(binascii.unhexlify(encrypted_hex), _oaep()))
        except ValueError:  # OpenSSL gives no reason, on purpose
            raise Corrupt("the encrypted group key cannot be decrypted with our RSA key") from None

    def __repr__(self) -> str:
        return f"RsaKeyPair({self._key.key_size} bits)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an RsaKeyPair holds a private key and is not copied, pickled or sent anywhere")


def _load_public_key(pem: str) -> "RSAPublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if len(pem) > MAX_PEM_CHARACTERS or not pem.startswith(_PUBLIC_HEADER) or not pem.endswith(_PUBLIC_FOOTER):
        raise Corrupt(f"RSA public key is not a PEM text of at most {MAX_PEM_CHARACTERS} characters")
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise Corrupt("RSA public key: the PEM text does not contain a public key") from None
    if not isinstance(key, rsa.RSAPublicKey) or not MIN_RSA_KEY_BITS <= key.key_size <= MAX_RSA_KEY_BITS:
        raise Corrupt(f"public key is not RSA of {MIN_RSA_KEY_BITS} to {MAX_RSA_KEY_BITS} bits")
    return key


def _public_pem(key: "RSAPrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _oaep() -> "OAEP":
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.hashes import SHA1

    return padding.OAEP(padding.MGF1(SHA1()), SHA1(), None)  # noqa: S303 - what the protocol asks for; OAEP is sound with it
