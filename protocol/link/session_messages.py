"""How the two ends find each other and agree on the time."""

from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar, Final

from protocol import strict_cbor
from protocol.link import payload
from protocol.link.authentication import BOOT_ID_BYTES, HOST_NONCE_BYTES
from protocol.link.frame import MAX_BODY_BYTES, MIN_MTU, FrameType
from protocol.link.payload import MAX_UINT32, MAX_UPTIME_MS
from protocol.strict_cbor import field

MAX_NAME_BYTES: Final = 32
MAX_WINDOW: Final = 16
MAX_RETRY_MS: Final = 60_000
MAX_DESCRIBED: Final = 255


class Feature(IntFlag):
    AUTHENTICATED = 1  # it takes no frame without a proof
    FIRMWARE_UPDATE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Host: begin a session, the one in the frame's header. Sent again, it changes nothing."""

    KIND: ClassVar = FrameType.SYNC

    host_nonce: bytes  # never used twice
    retry_ms: int  # how long the device waits for an acknowledgement; the host knows the line's speed

    def __post_init__(self) -> None:
        payload.check_length(self, HOST_NONCE_BYTES, "host_nonce")
        if not 1 <= self.retry_ms <= MAX_RETRY_MS:
            raise ValueError(f"retry_ms {self.retry_ms} is not within 1..{MAX_RETRY_MS}")

    def to_bytes(self) -> bytes:
        return payload.encode(self.host_nonce, self.retry_ms)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Sync":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("SYNC"):
            nonce, retry_ms = payload.decode(data, 2)
            return cls(host_nonce=field(nonce, bytes), retry_ms=field(retry_ms, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Device: who I am. An answer to SYNC, or, in session 0 and without a nonce, a call for one."""

    KIND: ClassVar = FrameType.HELLO
    FIELDS: ClassVar = 15

    host_nonce: bytes  # of the SYNC that this answers; empty in a call
    boot_id: bytes  # never used twice by this device
    syncs: int  # sessions begun since the boot, this one included
    device_id: str
    firmware: str  # its version
    mtu: int  # the largest body it takes and sends
    window: int  # the most readings it has on the way
    sensors: int  # descriptions 0 to sensors - 1
    commands: int  # the descriptions after those
    schema: int  # CRC-32 over all descriptions' payloads in order
    next_rseq: int  # the number that the next record will have
    dropped: int  # records it had no room for since the boot
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
        if not MIN_MTU <= self.mtu <= MAX_BODY_BYTES:
            raise ValueError(f"mtu {self.mtu} is not within {MIN_MTU}..{MAX_BODY_BYTES}")
        if not 1 <= self.window <= MAX_WINDOW:
            raise ValueError(f"window {self.window} is not within 1..{MAX_WINDOW}")

    def to_bytes(self) -> bytes:
        return payload.encode(
            self.host_nonce,
            self.boot_id,
            self.syncs,
            self.device_id,
            self.firmware,
            self.mtu,
            self.window,
            self.sensors,
            self.commands,
            self.schema,
            self.next_rseq,
            self.dropped,
            self.last_command,
            self.uptime_ms,
            int(self.features),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Hello":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("HELLO"):
            nonce, boot_id, syncs, device_id, firmware, *numbers = payload.decode_at_least(data, cls.FIELDS)
            mtu, window, sensors, commands, schema, rseq, dropped, command, uptime, features = (
                field(number, int) for number in numbers
            )
            return cls(
                host_nonce=field(nonce, bytes),
                boot_id=field(boot_id, bytes),
                syncs=field(syncs, int),
                device_id=field(device_id, str),
                firmware=field(firmware, str),
                mtu=mtu,
                window=window,
                sensors=sensors,
                commands=commands,
                schema=schema,
                next_rseq=rseq,
                dropped=dropped,
                last_command=command,
                uptime_ms=uptime,
                features=Feature(features),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Host: every record below `committed_rseq` is durable. The frame's `seq` says which reading it expects next."""

    KIND: ClassVar = FrameType.ACK

    committed_rseq: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "committed_rseq")

    def to_bytes(self) -> bytes:
        return payload.encode(self.committed_rseq)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Ack":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("ACK"):
            (committed,) = payload.decode(data, 1)
            return cls(committed_rseq=field(committed, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRequest:
    """Host: what does your clock say?"""

    KIND: ClassVar = FrameType.TIME_REQ

    token: int  # comes back with the answer

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "token")

    def to_bytes(self) -> bytes:
        return payload.encode(self.token)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeRequest":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("TIME_REQ"):
            (token,) = payload.decode(data, 1)
            return cls(token=field(token, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Device: how long it has been running. No one ever sets this clock."""

    KIND: ClassVar = FrameType.TIME

    token: int
    uptime_ms: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "token")
        payload.check_range(self, MAX_UPTIME_MS, "uptime_ms")

    def to_bytes(self) -> bytes:
        return payload.encode(self.token, self.uptime_ms)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Time":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("TIME"):
            token, uptime_ms = payload.decode(data, 2)
            return cls(token=field(token, int), uptime_ms=field(uptime_ms, int))
