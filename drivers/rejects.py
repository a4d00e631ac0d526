"""Input that could not be read: counted by sensor and reason, with samples for the operator.

A driver records here what it drops (a field, a line, a message). The agent shows the counts, reports when rejects begin
and end, and stores the samples. Memory is bounded: `MAX_KINDS` pairs of sensor and reason, `MAX_SAMPLES` samples of at
most `MAX_RAW_BYTES`. Of each kind the first few are sampled, and then fewer and fewer, so a source that sends only
unreadable input does not wear out the card.
"""

from json import JSONDecodeError
from typing import Final, NamedTuple

MAX_KINDS: Final = 64
MAX_SAMPLES: Final = 32
MAX_RAW_BYTES: Final = 4096
MAX_NAME_CHARS: Final = 128  # of a sensor or a reason
SAMPLED_FIRST: Final = 8
OTHER: Final = ("", "other reasons")


class Unreadable(ValueError):
    """A field with an unexpected value. The reason omits the value, so equal problems are counted together."""

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__(f"{reason}: {value}" if value else reason)
        self.reason = reason


def reason_of(error: ValueError) -> str:
    match error:
        case Unreadable():
            return error.reason
        case JSONDecodeError():
            return "not a JSON document"
        case UnicodeDecodeError():
            return "not UTF-8 text"
        case _:
            return str(error)


class Sample(NamedTuple):
    at_ms: int
    sensor: str  # or topic, where the sensor is unknown
    reason: str
    raw: bytes  # its first `MAX_RAW_BYTES`
    size_bytes: int


class Rejects:
    """The rejected input of one driver. The counts only rise."""

    def __init__(self) -> None:
        self.total = 0
        self.counts: dict[tuple[str, str], int] = {}  # by sensor and reason
        self._samples: list[Sample] = []

    def note(self, sensor: str, reason: str, raw: bytes, at_ms: int) -> None:
        self.total += 1
        kind = (sensor[:MAX_NAME_CHARS], reason[:MAX_NAME_CHARS])
        if kind not in self.counts and len(self.counts) >= MAX_KINDS:
            kind = OTHER
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        is_sampled = count <= SAMPLED_FIRST or count & (count - 1) == 0
        if is_sampled and len(self._samples) < MAX_SAMPLES:
            self._samples.append(Sample(at_ms, kind[0], reason[:MAX_NAME_CHARS], bytes(raw[:MAX_RAW_BYTES]), len(raw)))

    def take_samples(self) -> list[Sample]:
        """The samples since the last call."""
        samples, self._samples = self._samples, []
        return samples
