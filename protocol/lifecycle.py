"""What a device says about itself, as the content of ordinary signed messages in deterministic CBOR.

| InfoType | content |
|---|---|
| `headgate/start`, `headgate/stop`, `headgate/configuration` | `LifecycleNotice` |
| `headgate/device` | `DeviceNotice`: a sensor's port came up, went down, fell silent or is in trouble |
| `headgate/rejected` | `RejectedNotice`: input of a source could not be read |

Losses and clock corrections, which change how other messages are read, are in `protocol/events.py` and
`protocol/clock.py`.
"""

from dataclasses import dataclass
from typing import Final

from protocol import strict_cbor
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, field

__all__ = [
    "CONFIGURATION_INFO_TYPE",
    "DEVICE_INFO_TYPE",
    "MEDIA_TYPE",
    "REJECTED_INFO_TYPE",
    "START_INFO_TYPE",
    "STOP_INFO_TYPE",
    "DeviceNotice",
    "LifecycleNotice",
    "RejectedNotice",
]

START_INFO_TYPE: Final = "headgate/start"
STOP_INFO_TYPE: Final = "headgate/stop"
CONFIGURATION_INFO_TYPE: Final = "headgate/configuration"
DEVICE_INFO_TYPE: Final = "headgate/device"
REJECTED_INFO_TYPE: Final = "headgate/rejected"
MEDIA_TYPE: Final = "application/cbor"

DIGEST_BYTES: Final = 32
MAX_TEXT_BYTES: Final = 1024
MAX_COUNT: Final = 2**53
_BOUNDS: Final = CborBounds(max_bytes=4096, max_items=32, max_depth=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleNotice:
    """The agent starts, stops or takes another configuration."""

    version: str  # of the program
    configuration: bytes  # SHA-256 of the file it runs by
    reason: str  # "" or a few words

    def __post_init__(self) -> None:
        _check_text("version", self.version)
        _check_text("reason", self.reason)
        if len(self.configuration) != DIGEST_BYTES:
            raise ValueError(f"configuration of {len(self.configuration)} bytes, not {DIGEST_BYTES}")

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({"version": self.version, "configuration": self.configuration, "reason": self.reason})

    @classmethod
    def from_bytes(cls, data: bytes) -> "LifecycleNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("lifecycle notice"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), "version", "configuration", "reason")
            return cls(
                version=field(found["version"], str),
                configuration=field(found["configuration"], bytes),
                reason=field(found["reason"], str),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNotice:
    """A sensor's device changed its state."""

    device: str
    before: str
    after: str
    lasted_ms: int  # how long the state before lasted
    reason: str

    def __post_init__(self) -> None:
        for name in ("device", "before", "after", "reason"):
            _check_text(name, getattr(self, name))
        if not 0 <= self.lasted_ms <= MAX_TIMESTAMP_MS:
            raise ValueError(f"lasted_ms {self.lasted_ms} is not within 0..{MAX_TIMESTAMP_MS}")

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {
                "device": self.device,
                "before": self.before,
                "after": self.after,
                "lasted_ms": self.lasted_ms,
                "reason": self.reason,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "DeviceNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("device notice"):
            value = strict_cbor.decode(data, _BOUNDS)
            found = strict_cbor.fields(value, "device", "before", "after", "lasted_ms", "reason")
            return cls(
                device=field(found["device"], str),
                before=field(found["before"], str),
                after=field(found["after"], str),
                lasted_ms=field(found["lasted_ms"], int),
                reason=field(found["reason"], str),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedNotice:
    """Input of a source could not be read, and is in no reading."""

    device: str
    count: int  # since the previous notice of this device
    total: int  # since the driver started
    sensor: str  # of the most frequent kind so far
    reason: str  # of the same

    def __post_init__(self) -> None:
        for name in ("device", "sensor", "reason"):
            _check_text(name, getattr(self, name))
        if not 0 < self.count <= self.total <= MAX_COUNT:
            raise ValueError(
                f"count {self.count} is not within 1..total, or total {self.total} not within 1..{MAX_COUNT}"
            )

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {
                "device": self.device,
                "count": self.count,
                "total": self.total,
                "sensor": self.sensor,
                "reason": self.reason,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "RejectedNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("notice of rejected input"):
            value = strict_cbor.decode(data, _BOUNDS)
            found = strict_cbor.fields(value, "device", "count", "total", "sensor", "reason")
            return cls(
                device=field(found["device"], str),
                count=field(found["count"], int),
                total=field(found["total"], int),
                sensor=field(found["sensor"], str),
                reason=field(found["reason"], str),
            )


def _check_text(name: str, text: str) -> None:
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise ValueError(f"{name} of {len(text.encode())} bytes, at most {MAX_TEXT_BYTES}")
