"""Notices of a device about itself: the content of ordinary signed messages, in deterministic CBOR.

| InfoType | content |
|---|---|
| `headgate/start`, `headgate/stop`, `headgate/configuration` | `LifecycleNotice` |
| `headgate/device` | `DeviceNotice`: a sensor's port came up, went down, fell silent or has a problem |
| `headgate/rejected` | `RejectedNotice`: input of a source could not be read |

Losses and clock corrections, which change how other messages are read, are in `protocol/events.py` and
`protocol/clock.py`.
"""

from dataclasses import dataclass
from typing import Final

from protocol.checks import check_length, check_text, check_within
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, CborMap

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
class LifecycleNotice(CborMap):
    """The agent starts, stops or applies another configuration."""

    WHAT = "lifecycle notice"
    BOUNDS = _BOUNDS

    version: str  # of the program
    configuration: bytes  # SHA-256 of the configuration file
    reason: str  # "" or a few words

    def __post_init__(self) -> None:
        check_text("version", self.version, MAX_TEXT_BYTES)
        check_text("reason", self.reason, MAX_TEXT_BYTES)
        check_length("configuration", self.configuration, DIGEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNotice(CborMap):
    """A sensor's device changed its state."""

    WHAT = "device notice"
    BOUNDS = _BOUNDS

    device: str
    before: str
    after: str
    lasted_ms: int  # how long the previous state lasted
    reason: str

    def __post_init__(self) -> None:
        for name in ("device", "before", "after", "reason"):
            check_text(name, getattr(self, name), MAX_TEXT_BYTES)
        check_within("lasted_ms", self.lasted_ms, 0, MAX_TIMESTAMP_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedNotice(CborMap):
    """Input of a source could not be read, and is in no reading."""

    WHAT = "notice of rejected input"
    BOUNDS = _BOUNDS

    device: str
    count: int  # since the previous notice of this device
    total: int  # since the driver started
    sensor: str  # of the most frequent kind so far
    reason: str  # of the same

    def __post_init__(self) -> None:
        for name in ("device", "sensor", "reason"):
            check_text(name, getattr(self, name), MAX_TEXT_BYTES)
        if not 0 < self.count <= self.total <= MAX_COUNT:
            raise ValueError(
                f"count {self.count} is not within 1..total, or total {self.total} not within 1..{MAX_COUNT}"
            )
