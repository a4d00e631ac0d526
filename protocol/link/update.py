"""The messages of a firmware update. The device responds to each message of the host with FW_STATUS."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.payload import MAX_UINT32

MAX_MANIFEST_BYTES: Final = 256
SIGNATURE_BYTES: Final = 64
MAX_CHUNK_BYTES: Final = 960


class UpdateState(IntEnum):
    IDLE = 0  # runs a confirmed image, no update in progress
    RECEIVING = 1
    STAGED = 2  # complete and checked; runs after the next reset
    TRIAL = 3  # runs the new image, and returns to the old one at a reset unless confirmed
    REFUSED = 4  # for `reason`


class UpdateReason(IntEnum):
    NONE = 0
    NOT_SUPPORTED = 1  # no update on this device
    BAD_MANIFEST = 2
    BAD_SIGNATURE = 3
    OTHER_BOARD = 4
    ROLLED_BACK = 5  # its counter is below one that the device has confirmed
    TOO_LARGE = 6
    BAD_DIGEST = 7  # the image is not the one in the manifest
    FLASH_FAILED = 8
    OUT_OF_PLACE = 9  # a chunk elsewhere than at next_offset; continue from there
    NOT_BEGUN = 10
    REVERTED = 11  # with IDLE: the last image on trial was not confirmed, and the device returned to the old one


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBegin(payload.LinkMessage):
    """Host to device: begin an update. The same manifest again resumes it behind the last chunk."""

    KIND = FrameType.FW_BEGIN

    manifest: bytes
    signature: bytes  # Ed25519

    def __post_init__(self) -> None:
        if not 1 <= len(self.manifest) <= MAX_MANIFEST_BYTES:
            raise ValueError(f"manifest of {len(self.manifest)} bytes, not 1 to {MAX_MANIFEST_BYTES}")
        payload.check_length(self, SIGNATURE_BYTES, "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateChunk(payload.LinkMessage):
    """Host to device: a part of the image, from `offset` on."""

    KIND = FrameType.FW_CHUNK

    offset: int
    data: bytes

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "offset")
        if not 1 <= len(self.data) <= MAX_CHUNK_BYTES:
            raise ValueError(f"data of {len(self.data)} bytes, not 1 to {MAX_CHUNK_BYTES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEnd(payload.LinkMessage):
    """Host to device: the image is complete; check it."""

    KIND = FrameType.FW_END


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfirm(payload.LinkMessage):
    """Host to device: confirm the image on trial."""

    KIND = FrameType.FW_CONFIRM


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQuery(payload.LinkMessage):
    """Host to device: request the state of the update."""

    KIND = FrameType.FW_QUERY


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus(payload.LinkMessage):
    """Device to host: the state of the update."""

    KIND = FrameType.FW_STATUS

    next_offset: int  # bytes of the image that it has received
    state: UpdateState
    reason: UpdateReason

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "next_offset")
