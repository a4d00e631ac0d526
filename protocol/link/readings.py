"""Readings and log lines of a device."""

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from protocol import strict_cbor
from protocol.checks import check_within
from protocol.errors import Corrupt
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.payload import MAX_SAMPLES, MAX_UINT32, MAX_UPTIME_MS
from protocol.link.session_messages import MAX_DESCRIBED
from protocol.strict_cbor import field

MAX_LOG_BYTES: Final = 200
_LEAST_ITEMS: Final = 4
_INT64: Final = range(-(2**63), 2**63)


class Sample(NamedTuple):
    sensor: int  # index of its description
    value: int | None  # to be scaled by the exponent of the description; None if the sensor gave no value


_sample: Final = partial(tuple.__new__, Sample)  # of a pair that is known to be one


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(payload.LinkMessage):
    """Device to host: the samples of one moment. (device, boot id, rseq) identifies the record for ever."""

    KIND = FrameType.READING

    rseq: int  # number of the record since the boot, dropped records included
    uptime_ms: int
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        check_within("rseq", self.rseq, 0, MAX_UINT32)
        check_within("uptime_ms", self.uptime_ms, 0, MAX_UPTIME_MS)
        if not 1 <= len(self.samples) <= MAX_SAMPLES:
            raise ValueError(f"{len(self.samples)} samples, not 1 to {MAX_SAMPLES}")
        for sensor, value in self.samples:
            if not 0 <= sensor < MAX_DESCRIBED or (value is not None and value not in _INT64):
                raise ValueError(f"sensor {sensor} with value {value} is out of range")

    def to_bytes(self) -> bytes:
        return payload.encode(self.rseq, self.uptime_ms, *(item for sample in self.samples for item in sample))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Record":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("READING"):
            found = payload.decode_numbers(data)
            if len(found) < _LEAST_ITEMS or len(found) % 2:
                raise Corrupt(f"{len(found)} items are not a number, a time, and pairs of sensor and value")
            rseq, uptime_ms = payload.all_present(found[:2])
            samples = tuple(map(_sample, zip(payload.all_present(found[2::2]), found[3::2], strict=True)))
            return cls(rseq=rseq, uptime_ms=uptime_ms, samples=samples)


class LogLevel(IntEnum):
    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(payload.LinkMessage):
    """Device to host: a log line. It is sent once; a gap in the numbers shows how many were lost."""

    KIND = FrameType.LOG

    number: int  # of the line since the boot
    level: LogLevel
    text: str

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_UINT32, "number")
        payload.check_text(self, MAX_LOG_BYTES, "text", least=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogLine":
        """Characters that could control a terminal become "?". Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("LOG"):
            number, level, text = payload.decode(data, 3)
            shown = "".join(each if each.isprintable() else "?" for each in field(text, str))
            return payload.build(cls, (number, level, shown))
