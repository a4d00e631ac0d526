"""A firmware file, as `headgate firmware sign` writes it (suffix `.hgfw`): manifest, signature, image.

bytes  content
6      HGFIRM
2      version, 1
2      length of the manifest
…      manifest
64     signature
…      image, to the end of the file
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.errors import Corrupt, Truncated, Unsupported
from protocol.firmware.manifest import (
    MAX_IMAGE_BYTES,
    MAX_MANIFEST_BYTES,
    SIGNATURE_BYTES,
    Manifest,
    sign_manifest,
)

MAGIC = b"HGFIRM"
VERSION = 1
_PREAMBLE = struct.Struct(">6sHH")
MAX_HEAD_BYTES = _PREAMBLE.size + MAX_MANIFEST_BYTES + SIGNATURE_BYTES
MAX_PACKAGE_BYTES = MAX_HEAD_BYTES + MAX_IMAGE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A manifest, its signature and the image that it describes. `is_signed_by` checks the signature."""

    manifest: Manifest
    signature: bytes
    image: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.signature) != SIGNATURE_BYTES:
            raise ValueError(f"a signature of {len(self.signature)} bytes, not {SIGNATURE_BYTES}")
        if len(self.image) != self.manifest.size_bytes:
            raise Corrupt(f"image of {len(self.image)} bytes, the manifest states {self.manifest.size_bytes}")
        if hashlib.sha512(self.image).digest() != self.manifest.sha512:
            raise Corrupt("the image is not that of its manifest: their digests differ")

    def head(self) -> bytes:
        """Everything before the image."""
        manifest = self.manifest.to_bytes()
        return _PREAMBLE.pack(MAGIC, VERSION, len(manifest)) + manifest + self.signature

    def to_bytes(self) -> bytes:
        return self.head() + self.image

    @classmethod
    def from_bytes(cls, data: bytes) -> "Package":
        """Raises: WireError, also when the image is not the manifest's."""
        manifest_end = _PREAMBLE.size + _manifest_bytes(data)
        image_start = manifest_end + SIGNATURE_BYTES
        if len(data) < image_start:
            raise Truncated("the file ends before its image", offset=len(data))
        manifest = Manifest.from_bytes(data[_PREAMBLE.size : manifest_end])
        if len(data) < image_start + manifest.size_bytes:
            raise Truncated(f"the file ends within its image of {manifest.size_bytes} bytes", offset=len(data))
        return cls(manifest=manifest, signature=data[manifest_end:image_start], image=data[image_start:])


def package_image(image: bytes, *, board: str, version: str, counter: int, sign: Callable[[bytes], bytes]) -> Package:
    """Raises: ValueError for a name or a size that a manifest cannot hold."""
    digest = hashlib.sha512(image).digest()
    manifest = Manifest(board=board, version=version, counter=counter, size_bytes=len(image), sha512=digest)
    return Package(manifest=manifest, signature=sign_manifest(manifest, sign), image=image)


def _manifest_bytes(data: bytes) -> int:
    """The length of the manifest, from the preamble. Raises: WireError if the preamble is wrong."""
    if not MAGIC.startswith(data[: len(MAGIC)]):
        raise Corrupt(f"not a firmware file: it does not begin with {MAGIC.decode()}", offset=0)
    if len(data) < _PREAMBLE.size:
        raise Truncated("the file ends within its preamble", offset=len(data))
    _, version, manifest_bytes = _PREAMBLE.unpack_from(data)
    if version != VERSION:
        raise Unsupported(f"firmware file of version {version}, this reader knows {VERSION}", offset=len(MAGIC))
    if manifest_bytes > MAX_MANIFEST_BYTES:
        raise Corrupt(f"manifest of {manifest_bytes} bytes, at most {MAX_MANIFEST_BYTES} are allowed", offset=8)
    return int(manifest_bytes)
