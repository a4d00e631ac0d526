"""A message's place in its chain."""

from typing import NamedTuple

__all__ = ["MAX_SEQUENCE", "MAX_TIMESTAMP_MS", "Reference", "next_reference"]

MAX_TIMESTAMP_MS = 2**53 - 1  # what JSON carries exactly
MAX_SEQUENCE = 2**32 - 1
LATEST_CLOCK_MS = 7_258_118_400_000  # the year 2200; a clock that shows more is taken for this


class Reference(NamedTuple):
    """Of two references of one chain, the greater tuple is the later message."""

    timestamp_ms: int
    sequence: int


def next_reference(last: Reference | None, now_ms: int) -> Reference:
    """The first reference after `last` that is not before `now_ms`, whatever the clock says.

    A clock that stands still or went back leaves the timestamp where it was, and the sequence number counts on.
    """
    now_ms = min(max(now_ms, 0), LATEST_CLOCK_MS)
    if last is None or now_ms > last.timestamp_ms:
        return Reference(now_ms, 0)
    if last.sequence < MAX_SEQUENCE:
        return Reference(last.timestamp_ms, last.sequence + 1)
    return Reference(last.timestamp_ms + 1, 0)
