"""The manifest of a firmware image, and its signature.

It is small enough for one frame of the link beside its signature, and has one encoding, so that a device compares it
as bytes. The digest is SHA-512 because Ed25519 needs that one on the device anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from protocol import strict_cbor
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
    """What an image is. Whether someone trusted says so, `is_signed_by` tells."""

    board: str  # what the boot loader calls its hardware; any other refuses the image
    version: str  # what the running firmware says of itself in its HELLO
    counter: int  # a device that confirmed this one refuses all lower ones, for ever
    size_bytes: int
    sha512: bytes  # of the image

    def __post_init__(self) -> None:
        _check_name("board", self.board)
        _check_name("version", self.version)
        if not 0 <= self.counter <= MAX_COUNTER:
            raise ValueError(f"counter {self.counter} is not within 0 and {MAX_COUNTER}")
        if not 1 <= self.size_bytes <= MAX_IMAGE_BYTES:
            raise ValueError(f"an image of {self.size_bytes} bytes is not within 1 and {MAX_IMAGE_BYTES}")
        if len(self.sha512) != DIGEST_BYTES:
            raise ValueError(f"a digest of {len(self.sha512)} bytes, not {DIGEST_BYTES}")

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
    """`sign` gives the Ed25519 signature of a message by the builder's key."""
    return sign(_SIGNED_AS + manifest.to_bytes())


def is_signed_by(public_key: bytes, manifest: Manifest, signature: bytes) -> bool:
    """Whether the builder with this Ed25519 key signed exactly this manifest."""
    try:
        VerifyKey(public_key).verify(_SIGNED_AS + manifest.to_bytes(), signature)
    except (BadSignatureError, ValueError):
        return False
    return True


def _check_name(what: str, name: str) -> None:
    """Printable ASCII without spaces: every display, log and file name can show it, and C compares it as bytes."""
    if not 1 <= len(name) <= MAX_NAME_BYTES:
        raise ValueError(f"{what} of {len(name)} characters is not within 1 and {MAX_NAME_BYTES}")
    if not all("!" <= character <= "~" for character in name):
        raise ValueError(f"{what} {name!r} has a character that is not printable ASCII, or a space")
