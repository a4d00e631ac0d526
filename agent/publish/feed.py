"""The records on their way from the journal to one destination: the cursor they come from, and those in flight.

A record is *settled* when the destination has acknowledged it or it was quarantined. Records settle in any order; only
the unbroken run of settled records at the start of each lane is acknowledged to the journal, so that a crash or a lost
connection repeats records and never skips one.

    lane 1:   ── acknowledged ──►│ 7 settled │ 8 settled │ 9 in flight │ 10 settled │ 11 in flight
                                 └ 8 may be acknowledged ┘              └ waits for 9 ┘

A record of n readings is settled as a whole and acknowledged by the position of its last reading.

After a lost connection the records that are not settled are sent again; settled ones are remembered and not sent again.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from agent.journal import Cursor, Record

Result = TypeVar("Result")

JournalCall = Callable[[Callable[[], list[Record]]], Awaitable[list[Record]]]
"""Runs a function where the journal may be used, and returns its result: in the journal's thread, or directly.

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


_LANE, _POSITION, _NEXT_POSITION = map(attrgetter, ("lane", "position", "next_position"))


class Window:
    """The records of one publisher that are in flight, per lane and by rising position."""

    def __init__(self) -> None:
        self._lanes: dict[int, _LaneWindow] = {}
        self.in_flight = 0
        self.in_flight_bytes = 0

    def add(self, records: Iterable[Record]) -> list[Record]:
        """Take records of any lane, by rising position; give those to send: all but the ones settled already."""
        to_send: list[Record] = []
        for lane, several in groupby(records, key=_LANE):
            to_send += self._lane(lane).add(list(several))
        self.in_flight += len(to_send)
        self.in_flight_bytes += _size(to_send)
        return to_send

    def in_flight_records(self, lane: int, first: int, last: int) -> list[Record]:
        """The records of the run that are in flight."""
        return self._lane(lane).in_flight_records(first, last)

    def settle(self, lane: int, first: int, last: int) -> list[Record]:
        """Settle a run and return those of it that were in flight; a repeated or late outcome changes nothing."""
        settled = self._lane(lane).settle(first, last)
        self.in_flight -= len(settled)
        self.in_flight_bytes -= _size(settled)
        return settled

    def take_settled(self) -> dict[int, int]:
        """Per lane, the last position of the unbroken settled run, where it has grown since the last call."""
        ends = {number: lane.take_settled() for number, lane in self._lanes.items()}
        return {number: end for number, end in ends.items() if end is not None}

    def has_settled(self) -> bool:
        """Whether `take_settled` would give anything."""
        return any(lane.has_settled() for lane in self._lanes.values())

    def only_one(self) -> Record | None:
        """The record in flight, if there is exactly one."""
        if self.in_flight != 1:
            return None
        return next(record for lane in self._lanes.values() if (record := lane.first_in_flight()) is not None)

    def disconnect(self) -> None:
        """Clear the records in flight; those not settled are added again later, in order."""
        for lane in self._lanes.values():
            lane.disconnect()
        self.in_flight = self.in_flight_bytes = 0

    def _lane(self, number: int) -> "_LaneWindow":
        if number not in self._lanes:
            self._lanes[number] = _LaneWindow()
        return self._lanes[number]


class _LaneWindow:
    """One lane: records not yet acknowledged to the journal, and those in flight; both by rising position."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._next_positions: list[int] = []  # after each record
        self._in_flight_records: dict[int, Record] = {}
        self._settled_early: set[int] = set()  # settled on a connection that was lost, behind one that was not

    def add(self, records: list[Record]) -> list[Record]:
        """Those that are to be sent."""
        early = self._settled_early
        to_send = [record for record in records if record.position not in early] if early else records
        # Earlier positions do not come again: they were shed meanwhile, or are among these.
        self._settled_early = {position for position in early if position > records[-1].position}
        self._positions += map(_POSITION, records)
        self._next_positions += map(_NEXT_POSITION, records)
        self._in_flight_records.update(zip(map(_POSITION, to_send), to_send, strict=True))
        return to_send

    def in_flight_records(self, first: int, last: int) -> list[Record]:
        return [
            self._in_flight_records[each] for each in self._positions_in(first, last) if each in self._in_flight_records
        ]

    def settle(self, first: int, last: int) -> list[Record]:
        remove = self._in_flight_records.pop
        removed = [remove(position, None) for position in self._positions_in(first, last)]
        return [record for record in removed if record is not None]

    def has_settled(self) -> bool:
        return bool(self._positions) and self._positions[0] not in self._in_flight_records

    def take_settled(self) -> int | None:
        if not self.has_settled():
            return None
        first_in_flight = next(iter(self._in_flight_records), self._positions[-1] + 1)
        count = bisect_left(self._positions, first_in_flight)
        last = self._next_positions[count - 1] - 1
        del self._positions[:count], self._next_positions[:count]
        return last

    def first_in_flight(self) -> Record | None:
        return next(iter(self._in_flight_records.values()), None)

    def disconnect(self) -> None:
        self._settled_early.update(position for position in self._positions if position not in self._in_flight_records)
        self._positions.clear()
        self._next_positions.clear()
        self._in_flight_records.clear()

    def _positions_in(self, first: int, last: int) -> Sequence[int]:
        """Of the run; some may be missing, where records were shed."""
        if first == last:
            return (first,)
        return self._positions[bisect_left(self._positions, first) : bisect_right(self._positions, last)]


def _size(records: Sequence[Record]) -> int:
    return sum([len(record.payload) for record in records])
