"""The frames of an archive file.

    magic and version (8)  header frame  block frame …  manifest frame  signature frame

A frame consists of its kind (one letter), the length of its payload (4 bytes, big-endian) and the payload. The
signature frame is the last and has a fixed size, so a reader finds the manifest from the end of the file.
"""

import hashlib
import struct
from enum import IntEnum

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from protocol.archive.errors import CorruptArchive
from protocol.archive.limits import MAX_BLOCK_BYTES, MAX_HEADER_BYTES, MAX_MANIFEST_BYTES
from protocol.errors import Truncated, Unsupported

MAGIC = b"HGARCH"
VERSION = 3
PREAMBLE = MAGIC + VERSION.to_bytes(2, "big")

FRAME_HEAD = struct.Struct(">BI")
SIGNATURE = struct.Struct(">Q64s")  # offset of the manifest frame, Ed25519 signature
TAIL_BYTES = FRAME_HEAD.size + SIGNATURE.size

_SIGNED_AS = b"headgate archive 3\n"  # no other signature of the same key is valid for an archive


class FrameKind(IntEnum):
    HEADER = ord("H")
    BLOCK = ord("B")
    MANIFEST = ord("M")
    SIGNATURE = ord("S")


MAX_PAYLOAD_BYTES = {
    FrameKind.HEADER: MAX_HEADER_BYTES,
    FrameKind.BLOCK: MAX_BLOCK_BYTES,
    FrameKind.MANIFEST: MAX_MANIFEST_BYTES,
    FrameKind.SIGNATURE: SIGNATURE.size,
}


def check_preamble(data: bytes) -> None:
    """Check the first bytes of a file, as many as there are, up to the length of the preamble."""
    if not PREAMBLE.startswith(data[: len(PREAMBLE)]):
        if data.startswith(MAGIC):
            raise Unsupported(
                f"archive format {data[len(MAGIC) :].hex()}, this reader knows {VERSION}", offset=len(MAGIC)
            )
        raise CorruptArchive("not an archive: it does not begin with HGARCH", offset=0)
    if len(data) < len(PREAMBLE):
        raise Truncated("the archive ends within its first 8 bytes", offset=len(data))


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    return FRAME_HEAD.pack(kind, len(payload)) + payload


def decode_frame_head(data: bytes, offset: int, *, expected: tuple[FrameKind, ...]) -> tuple[FrameKind, int]:
    """Kind and payload length of the frame whose head is `data`. `offset` is its position in the file."""
    if len(data) < FRAME_HEAD.size:
        raise Truncated("the archive ends within the head of a frame", offset=offset + len(data))
    kind, length = FRAME_HEAD.unpack(data)
    if kind not in expected:
        names = " or ".join(each.name.lower() for each in expected)
        raise CorruptArchive(f"frame of kind {kind:#04x} where {names} is expected", offset=offset)
    if length > MAX_PAYLOAD_BYTES[kind]:
        raise CorruptArchive(f"{FrameKind(kind).name.lower()} frame of {length} bytes is too long", offset=offset)
    return FrameKind(kind), length


def decode_signature(payload: bytes, offset: int) -> tuple[int, bytes]:
    """The offset of the manifest frame, and the signature. `offset` is that of the signature frame."""
    if len(payload) != SIGNATURE.size:
        raise CorruptArchive(f"signature frame of {len(payload)} bytes, not {SIGNATURE.size}", offset=offset)
    manifest_offset, signature = SIGNATURE.unpack(payload)
    return manifest_offset, signature


def bytes_to_sign(manifest_payload: bytes) -> bytes:
    """The manifest contains the digests of everything before it, so its own digest covers the whole file."""
    return _SIGNED_AS + hashlib.sha256(manifest_payload).digest()


def check_signature(archive_key: bytes, manifest_payload: bytes, signature: bytes, *, offset: int) -> None:
    try:
        VerifyKey(archive_key).verify(bytes_to_sign(manifest_payload), signature)
    except (BadSignatureError, ValueError) as error:
        raise CorruptArchive("the signature is not by the key in the header", offset=offset) from error
