"""Output for a terminal: sizes, durations and a progress line."""

import sys
import time
from typing import Final, TextIO

DAY_S: Final = 86_400


def bytes_text(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count < 1e10 else f"{count / 1e9:.1f} GB"


def duration_text(seconds: float) -> str:
    for unit, size in (("years", 365 * DAY_S), ("days", DAY_S), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


SHOW_EVERY_S = 0.2


class Progress:
    """A progress line on a terminal; nothing is written to a file or a pipe."""

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._next_at_s = time.monotonic() + SHOW_EVERY_S  # short work shows nothing
        self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._write("")

    def reach(self, done: int) -> None:
        if self._is_shown and time.monotonic() >= self._next_at_s:
            self._next_at_s = time.monotonic() + SHOW_EVERY_S
            self._write(f"{self._what}: {done * 100 // max(1, self._total)} %")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text:<{self._width}}" + ("\r" if not text else ""))
        self._stream.flush()
        self._width = len(text)
