"""The reference of a message: its identity within its chain."""

from typing import NamedTuple

from protocol.checks import check_within
from protocol.strict_cbor import CborValue, field, items

MAX_TIMESTAMP_MS = 2**53 - 1  # JSON carries larger integers inexactly
MAX_SEQUENCE = 2**32 - 1
LATEST_CLOCK_MS = 7_258_118_400_000  # the year 2200; a clock that shows a later time is read as this


class Reference(NamedTuple):
    """Timestamp and sequence number. Of two references of one chain, the greater is of the later message."""

    timestamp_ms: int
    sequence: int

    @classmethod
    def from_cbor(cls, value: CborValue) -> "Reference":
        """Raises: WireError."""
        timestamp_ms, sequence = items(value, 2)
        return cls(field(timestamp_ms, int), field(sequence, int))


def check_reference(name: str, reference: Reference) -> None:
    """Raises: ValueError if a number is beyond its limit."""
    check_within(f"{name} timestamp_ms", reference.timestamp_ms, 0, MAX_TIMESTAMP_MS)
    check_within(f"{name} sequence", reference.sequence, 0, MAX_SEQUENCE)


def next_reference(last: Reference | None, now_ms: int) -> Reference:
    """The first reference after `last` that is not before `now_ms`.

    If the clock stands still or went back, the timestamp stays and the sequence number is incremented.
    """
    now_ms = min(max(now_ms, 0), LATEST_CLOCK_MS)
    if last is None or now_ms > last.timestamp_ms:
        return Reference(now_ms, 0)
    if last.sequence < MAX_SEQUENCE:
        return Reference(last.timestamp_ms, last.sequence + 1)
    return Reference(last.timestamp_ms + 1, 0)
