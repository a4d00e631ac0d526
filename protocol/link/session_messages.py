"""The messages that begin a session, acknowledge readings and compare clocks."""

from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from protocol.checks import check_within
from protocol.link import payload
from protocol.link.authentication import BOOT_ID_BYTES, HOST_NONCE_BYTES
from protocol.link.frame import MAX_BODY_BYTES, MIN_MTU, FrameType
from protocol.link.payload import MAX_UINT32, MAX_UPTIME_MS

MAX_NAME_BYTES: Final = 32
MAX_WINDOW: Final = 16
MAX_RETRY_MS: Final = 60_000
MAX_DESCRIBED: Final = 255


class Feature(IntFlag):
    AUTHENTICATED = 1  # it accepts no frame without a proof
    FIRMWARE_UPDATE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(payload.LinkMessage):
    """Host to device: begin the session that the frame's header names. A repeated SYNC changes nothing."""

    KIND = FrameType.SYNC

    host_nonce: bytes  # never used twice
    retry_ms: int  # how long the device waits for an acknowledgement; the host knows the speed of the line

    def __post_init__(self) -> None:
        payload.check_length(self, HOST_NONCE_BYTES, "host_nonce")
        check_within("retry_ms", self.retry_ms, 1, MAX_RETRY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(payload.LinkMessage):
    """Device to host: its identity. The response to SYNC or, in session 0 and without a nonce, a request for one."""

    KIND = FrameType.HELLO
    MAY_GROW = True

    host_nonce: bytes  # of the SYNC that this responds to; empty in a request for one
    boot_id: bytes  # never used twice by this device
    syncs: int  # sessions begun since the boot, this one included
    device_id: str
    firmware: str  # its version
    mtu: int  # the largest body it receives and sends, in bytes
    window: int  # readings that it sends without an acknowledgement
    sensors: int  # descriptions 0 to sensors - 1
    commands: int  # the descriptions after those
    schema: int  # CRC-32 over all descriptions' payloads in order
    next_rseq: int  # the number that the next record will have
    dropped: int  # records that it had no space for since the boot
    last_command: int  # the highest id it has seen since the boot; 0 if none
    uptime_ms: int
    features: Feature

    def __post_init__(self) -> None:
        if self.host_nonce:
            payload.check_length(self, HOST_NONCE_BYTES, "host_nonce")
        payload.check_length(self, BOOT_ID_BYTES, "boot_id")
        payload.check_text(self, MAX_NAME_BYTES, "device_id", "firmware")
        payload.check_range(self, MAX_UINT32, "syncs", "schema", "next_rseq", "dropped", "last_command", "features")
        payload.check_range(self, MAX_UPTIME_MS, "uptime_ms")
        payload.check_range(self, MAX_DESCRIBED, "sensors", "commands")
        check_within("mtu", self.mtu, MIN_MTU, MAX_BODY_BYTES)
        check_within("window", self.window, 1, MAX_WINDOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(payload.LinkMessage):
    """Host to device: every record below `committed_rseq` is durable. The frame's `seq` names the next reading."""

    KIND = FrameType.ACK

    committed_rseq: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "committed_rseq")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRequest(payload.LinkMessage):
    """Host to device: request the uptime."""

    KIND = FrameType.TIME_REQ

    token: int  # repeated in the response

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(payload.LinkMessage):
    """Device to host: the time since its boot, by a clock that is never set."""

    KIND = FrameType.TIME

    token: int
    uptime_ms: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "token")
        payload.check_range(self, MAX_UPTIME_MS, "uptime_ms")
