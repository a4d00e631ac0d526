"""The manifest of a firmware image, and its signature.

With its signature it fits one frame of the link, and it has exactly one encoding, so that a device can compare its
bytes. The digest is SHA-512 because Ed25519 requires that hash on the device anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from protocol import strict_cbor
from protocol.checks import check_length, check_within
from protocol.errors import Unsupported
from protocol.strict_cbor import CborBounds, field

VERSION = 1
DIGEST_BYTES = 64
SIGNATURE_BYTES = 64
MAX_NAME_BYTES = 32
MAX_IMAGE_BYTES = 16 << 20
MAX_COUNTER = 2**32 - 1
MAX_MANIFEST_BYTES = 146  # every field at its longest

_SIGNED_AS = b"headgate firmware 1\n"
_BOUNDS = CborBounds(max_bytes=MAX_MANIFEST_BYTES, max_items=7, max_depth=1)
_FIELDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of an image. `is_signed_by` checks its signature."""

    board: str  # the hardware, by the boot loader's name for it; any other refuses the image
    version: str  # as the running firmware reports it in its HELLO
    counter: int  # a device that has confirmed this image refuses all lower counters
    size_bytes: int
    sha512: bytes  # of the image

    def __post_init__(self) -> None:
        _check_name("board", self.board)
        _check_name("version", self.version)
        check_within("counter", self.counter, 0, MAX_COUNTER)
        if not self.size_bytes:
            raise ValueError("the image is empty")
        check_within("size_bytes", self.size_bytes, 1, MAX_IMAGE_BYTES)
        check_length("sha512", self.sha512, DIGEST_BYTES)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode([VERSION, self.board, self.version, self.counter, self.size_bytes, self.sha512])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("firmware manifest"):
            found = strict_cbor.items(strict_cbor.decode(data, _BOUNDS))
            if not found or field(found[0], int) != VERSION:
                raise Unsupported(f"version {found[:1]}, this reader knows {VERSION}")
            _, board, version, counter, size_bytes, sha512 = strict_cbor.items(found, _FIELDS)
            return cls(
                board=field(board, str),
                version=field(version, str),
                counter=field(counter, int),
                size_bytes=field(size_bytes, int),
                sha512=field(sha512, bytes),
            )


def sign_manifest(manifest: Manifest, sign: Callable[[bytes], bytes]) -> bytes:
    """The signature of a manifest. `sign` returns the Ed25519 signature of a message by the builder's key."""
    return sign(_SIGNED_AS + manifest.to_bytes())


def is_signed_by(public_key: bytes, manifest: Manifest, signature: bytes) -> bool:
    """Whether the builder with this Ed25519 key signed exactly this manifest."""
    try:
        VerifyKey(public_key).verify(_SIGNED_AS + manifest.to_bytes(), signature)
    except (BadSignatureError, ValueError):
        return False
    return True


def _check_name(what: str, name: str) -> None:
    """Require printable ASCII without spaces: it fits every log and file name, and C compares it as bytes."""
    if not 1 <= len(name) <= MAX_NAME_BYTES:
        raise ValueError(f"{what} of {len(name)} characters is not within 1 and {MAX_NAME_BYTES}")
    if not all("!" <= character <= "~" for character in name):
        raise ValueError(f"{what} {name!r} has a character that is not printable ASCII, or a space")
