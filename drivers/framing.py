"""Splits a byte stream into frames. Pure: bytes in, frames and damage out; noise is never an exception.

Memory is bounded by the longest frame that is allowed.
"""

from dataclasses import dataclass
from typing import Final, Protocol

MAX_FRAME_BYTES: Final = 64 * 1024
_SHOWN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes that are not a frame, or a frame without meaning."""

    problem: str
    reason: str = ""  # the same without the bytes; default: the problem
    raw: bytes = b""

    @classmethod
    def frame(cls, problem: str, frame: bytes, reason: str = "") -> "Damaged":
        shown = f"{frame[:_SHOWN_BYTES]!r}{'…' if len(frame) > _SHOWN_BYTES else ''}"
        return cls(f"{problem}: {shown}", reason or problem, frame)


class Frames(Protocol):
    def feed(self, data: bytes) -> list[bytes | Damaged]: ...


class DelimitedFrames:
    """Frames that end with a delimiter: lines. Empty ones are left out; one that is too long is dropped to its end."""

    def __init__(self, delimiter: bytes, max_bytes: int) -> None:
        if not delimiter or not 0 < max_bytes <= MAX_FRAME_BYTES:
            raise ValueError(f"a delimiter and 1 to {MAX_FRAME_BYTES} bytes are expected")
        self._delimiter = delimiter
        self._max_bytes = max_bytes
        self._pending = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | Damaged]:
        *complete, rest = (self._pending + data).split(self._delimiter)
        events = [event for part in complete if (event := self._finish(part)) is not None]
        if len(rest) >= self._max_bytes + len(self._delimiter):  # even if it holds half a delimiter
            if not self._skipping:
                events.append(self._too_long(rest))
            self._skipping = True
        if self._skipping:  # retain the part in which a delimiter may have begun
            rest = rest[max(0, len(rest) - len(self._delimiter) + 1) :]
        self._pending = rest
        return events

    def _finish(self, frame: bytes) -> bytes | Damaged | None:
        if self._skipping:
            self._skipping = False
            return None
        if len(frame) > self._max_bytes:
            return self._too_long(frame)
        return frame or None

    def _too_long(self, frame: bytes) -> Damaged:
        return Damaged.frame(f"no end of frame within {self._max_bytes} bytes", frame)


class FixedFrames:
    """Frames of one length. With a sync word, bytes before it are skipped; without, the first byte begins a frame."""

    def __init__(self, frame_bytes: int, sync: bytes = b"") -> None:
        if not len(sync) <= frame_bytes <= MAX_FRAME_BYTES or frame_bytes < 1:
            raise ValueError(f"a frame has 1 to {MAX_FRAME_BYTES} bytes, its sync word included")
        self._frame_bytes = frame_bytes
        self._sync = sync
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes | Damaged]:
        pending, at, events = self._pending + data, 0, list[bytes | Damaged]()
        while True:
            start = pending.find(self._sync, at)
            if start < 0:
                start = _possible_start(pending, at, self._sync)
            if start > at:
                events.append(Damaged.frame("no sync word", pending[at:start]))
            if len(pending) - start < self._frame_bytes or not pending.startswith(self._sync, start):
                break
            at = start + self._frame_bytes
            events.append(pending[start:at])
        self._pending = pending[start:]
        return events


def _possible_start(pending: bytes, at: int, sync: bytes) -> int:
    """Where a sync word cut short by the end of the data begins."""
    for start in range(max(at, len(pending) - len(sync) + 1), len(pending)):
        if sync.startswith(pending[start:]):
            return start
    return len(pending)
