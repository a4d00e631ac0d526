"""One line per step, with the time since the start; what goes on meanwhile is shown in place, at a terminal."""

import sys
import time
from typing import Final

__all__ = ["Narrator"]

CLEAR: Final = "\r\x1b[K"


class Narrator:
    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._is_terminal = sys.stdout.isatty()

    def say(self, text: str) -> None:
        print(f"{self._clear()}{time.monotonic() - self._began_s:5.1f} s  {text}", flush=True)

    def add(self, text: str) -> None:
        """More about the step before."""
        print(f"{self._clear()}         {text}", flush=True)

    def show(self, text: str) -> None:
        """What changes while one waits; it leaves nothing behind."""
        if self._is_terminal:
            print(f"{CLEAR}         {text}", end="", flush=True)

    def _clear(self) -> str:
        return CLEAR if self._is_terminal else ""
