"""A line on stderr that says how far long work is. Only a terminal sees it; it is gone when the work is done."""

import sys
import time
from typing import TextIO

SHOW_EVERY_S = 0.2


class Progress:
    """Tell it how much is done, as often as you like."""

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
