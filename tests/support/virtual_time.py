"""An event loop whose clock jumps to the next timer: waits take no time, and their length is exact.

    run_in_virtual_time(scenario())     `asyncio.get_running_loop().time()` and all timeouts go by the virtual clock

A loop that waits for ever, with no timer and nothing ready, or that goes on for ever, raises `Deadlock`.
Not for code with threads or sockets.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Deadlock", "run_in_virtual_time"]

MAX_TURNS = 5_000
T = TypeVar("T")


class Deadlock(Exception):
    """The main task will not end."""


class _Selector(selectors.SelectSelector):
    now_s = 0.0
    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if timeout is None or self.turns > MAX_TURNS:
            raise Deadlock
        self.now_s += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Tasks that `main` leaves behind are dropped."""
    loop = _Loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
