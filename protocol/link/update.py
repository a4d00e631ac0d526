"""Firmware update: the messages that carry a signed image. Each of the host's is answered by FW_STATUS."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

from protocol import strict_cbor
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.payload import MAX_UINT32
from protocol.strict_cbor import field

MAX_MANIFEST_BYTES: Final = 256
SIGNATURE_BYTES: Final = 64
MAX_CHUNK_BYTES: Final = 960


class UpdateState(IntEnum):
    IDLE = 0  # runs a confirmed image, no update under way
    RECEIVING = 1
    STAGED = 2  # whole and checked; runs after the next reset
    TRIAL = 3  # runs the new image, and goes back to the old one at a reset unless confirmed
    REFUSED = 4  # `reason` tells why


class UpdateReason(IntEnum):
    NONE = 0
    NOT_SUPPORTED = 1  # no update on this device
    BAD_MANIFEST = 2
    BAD_SIGNATURE = 3
    OTHER_BOARD = 4
    ROLLED_BACK = 5  # older than what the device has promised never to run again
    TOO_LARGE = 6
    BAD_DIGEST = 7  # the image is not the one in the manifest
    FLASH_FAILED = 8
    OUT_OF_PLACE = 9  # a chunk elsewhere than at next_offset; go on from there
    NOT_BEGUN = 10
    REVERTED = 11  # with IDLE: the last image on trial was not confirmed, and the device went back


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBegin:
    """Host: an image is coming. The same manifest again resumes where the last chunk ended."""

    KIND: ClassVar = FrameType.FW_BEGIN

    manifest: bytes
    signature: bytes  # Ed25519

    def __post_init__(self) -> None:
        if not 1 <= len(self.manifest) <= MAX_MANIFEST_BYTES:
            raise ValueError(f"manifest of {len(self.manifest)} bytes, not 1 to {MAX_MANIFEST_BYTES}")
        payload.check_length(self, SIGNATURE_BYTES, "signature")

    def to_bytes(self) -> bytes:
        return payload.encode(self.manifest, self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> "UpdateBegin":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("FW_BEGIN"):
            manifest, signature = payload.decode(data, 2)
            return cls(manifest=field(manifest, bytes), signature=field(signature, bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateChunk:
    """Host: the image's bytes from `offset` on."""

    KIND: ClassVar = FrameType.FW_CHUNK

    offset: int
    data: bytes

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "offset")
        if not 1 <= len(self.data) <= MAX_CHUNK_BYTES:
            raise ValueError(f"data of {len(self.data)} bytes, not 1 to {MAX_CHUNK_BYTES}")

    def to_bytes(self) -> bytes:
        return payload.encode(self.offset, self.data)

    @classmethod
    def from_bytes(cls, data: bytes) -> "UpdateChunk":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("FW_CHUNK"):
            offset, chunk = payload.decode(data, 2)
            return cls(offset=field(offset, int), data=field(chunk, bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """A message that is its type and nothing more."""

    KIND: ClassVar[FrameType]

    def to_bytes(self) -> bytes:
        return payload.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt(cls.KIND.name):
            payload.decode(data, 0)
            return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEnd(_Word):
    """Host: that was all; check it."""

    KIND: ClassVar = FrameType.FW_END


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfirm(_Word):
    """Host: the image on trial works; keep it."""

    KIND: ClassVar = FrameType.FW_CONFIRM


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQuery(_Word):
    """Host: where do you stand?"""

    KIND: ClassVar = FrameType.FW_QUERY


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus:
    """Device: where the update stands."""

    KIND: ClassVar = FrameType.FW_STATUS

    next_offset: int  # how many bytes of the image it has
    state: UpdateState
    reason: UpdateReason

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "next_offset")

    def to_bytes(self) -> bytes:
        return payload.encode(self.next_offset, int(self.state), int(self.reason))

    @classmethod
    def from_bytes(cls, data: bytes) -> "UpdateStatus":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("FW_STATUS"):
            next_offset, state, reason = (field(item, int) for item in payload.decode(data, 3))
            return cls(next_offset=next_offset, state=UpdateState(state), reason=UpdateReason(reason))
