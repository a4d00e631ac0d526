"""Where records come from: a cursor of the journal, read in fair shares and without touching it from two threads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from agent.journal import Cursor, Record

__all__ = ["CursorSource", "JournalCall", "call_directly"]

Result = TypeVar("Result")

JournalCall = Callable[[Callable[[], list[Record]]], Awaitable[list[Record]]]
"""Runs a function where the journal may be touched, and gives its result: in the journal's thread, or right here.

Calls run one at a time, in the order in which they were made, even where the caller was cancelled meanwhile.
"""


async def call_directly(function: Callable[[], Result]) -> Result:
    """For a journal that lives in the event loop's own thread."""
    return function()


Limits = Callable[[int, int, int], int]
"""How many records to take of a lane, of so many that have any, when so many records were taken already."""


class CursorSource:
    """One cursor, from which records are taken and to which they are acknowledged in one step."""

    def __init__(self, cursor: Cursor, call: JournalCall = call_directly) -> None:
        self._cursor = cursor
        self._call = call
        self._has_news = asyncio.Event()

    def notify(self) -> None:
        """Something was committed, or settled. Call it in the event loop's thread."""
        self._has_news.set()

    async def wait_for_news(self) -> None:
        """Until `notify` was called since the last `step` began."""
        await self._has_news.wait()

    async def wait_for_more_news(self) -> None:
        """Until `notify` is called again."""
        self._has_news.clear()
        await self._has_news.wait()

    async def step(self, settled: Mapping[int, int], limits: Limits) -> list[Record]:
        """Acknowledge what is settled, per lane up to a position, and take what comes next.

        `limits(lane, waiting_lanes, taken)` says how many of that lane to take at most. A lane's records come by
        rising position, the most important lane first, and no lane keeps another from its share.
        """
        self._has_news.clear()
        return await self._call(lambda: self._step(settled, limits))

    async def rewind(self) -> None:
        """Begin again with what is not acknowledged."""
        await self._call(self._rewind)

    def _step(self, settled: Mapping[int, int], limits: Limits) -> list[Record]:
        for lane, position in settled.items():
            self._cursor.acknowledge(lane, position)
        waiting = self._cursor.waiting_lanes()
        records: list[Record] = []
        for lane in waiting:
            records += self._take(lane, limits(lane, len(waiting), len(records)))
        return records

    def _take(self, lane: int, max_records: int) -> list[Record]:
        return self._cursor.take(max_records, lane=lane) if max_records > 0 else []

    def _rewind(self) -> list[Record]:
        self._cursor.rewind()
        return []
