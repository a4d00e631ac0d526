"""What is under way: sent, not yet settled. No I/O, no clock.

A record is *settled* when the far end has acknowledged it or it was set aside. Settling happens in any order; the
journal is told only of the unbroken run of settled records at the start of each lane, so that a crash or a lost
connection repeats and never skips.

    lane 1:   ── acknowledged ──►│ 7 settled │ 8 settled │ 9 under way │ 10 settled │ 11 under way
                                 └ the journal may be told of 8 ┘        └ waits for 9 ┘

After a lost connection what is not settled is sent again. What was settled already is remembered, and not sent again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import compress, groupby
from operator import attrgetter

from agent.journal import Record

__all__ = ["Window"]

_LANE, _POSITION = attrgetter("lane"), attrgetter("position")
_UNDER_WAY, _SETTLED = b"\0", b"\1"


class Window:
    """The records of one publisher that are under way, per lane and by rising position."""

    def __init__(self) -> None:
        self._lanes: dict[int, _LaneWindow] = {}
        self.in_flight = 0

    def add(self, records: Iterable[Record]) -> list[Record]:
        """Take records of any lane, by rising position; give those to send: all but the ones settled already."""
        to_send: list[Record] = []
        for lane, several in groupby(records, key=_LANE):
            to_send += self._lane(lane).add(list(several))
        self.in_flight += len(to_send)
        return to_send

    def under_way(self, lane: int, first: int, last: int) -> list[Record]:
        """Those of the run that are."""
        return self._lane(lane).under_way(first, last)

    def settle(self, lane: int, first: int, last: int) -> int:
        """How many of the run were under way: a proof that comes twice, or too late, changes nothing."""
        settled = self._lane(lane).settle(first, last)
        self.in_flight -= settled
        return settled

    def take_settled(self) -> dict[int, int]:
        """Per lane, the last position of the unbroken settled run, where it has grown since the last call."""
        ends = {number: lane.take_settled() for number, lane in self._lanes.items()}
        return {number: end for number, end in ends.items() if end is not None}

    def has_settled(self) -> bool:
        """Whether `take_settled` would give anything."""
        return any(lane.has_settled() for lane in self._lanes.values())

    def only_one(self) -> Record | None:
        """The one record that is under way, if there is exactly one."""
        if self.in_flight != 1:
            return None
        return next(record for lane in self._lanes.values() if (record := lane.first_in_flight()) is not None)

    def disconnect(self) -> None:
        """Nothing is under way any more. What was sent and not settled will be added again, in its order."""
        for lane in self._lanes.values():
            lane.disconnect()
        self.in_flight = 0

    def _lane(self, number: int) -> "_LaneWindow":
        if number not in self._lanes:
            self._lanes[number] = _LaneWindow()
        return self._lanes[number]


class _LaneWindow:
    """One lane: what was added and not yet told of, oldest first, each with a mark. All columns are of one length."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._positions: list[int] = []
        self._marks = bytearray()  # `_UNDER_WAY` or `_SETTLED`
        self._settled_early: set[int] = set()  # settled on a connection that was lost, behind one that was not

    def add(self, records: list[Record]) -> list[Record]:
        """Those that are to be sent."""
        positions = list(map(_POSITION, records))
        marks = bytes(map(self._settled_early.__contains__, positions))
        # What lies before will not come again: it was shed meanwhile, or it is one of these.
        self._settled_early = {each for each in self._settled_early if each > positions[-1]}
        self._records += records
        self._positions += positions
        self._marks += marks
        return _under_way(records, marks)

    def under_way(self, first: int, last: int) -> list[Record]:
        start, end = self._bounds(first, last)
        return _under_way(self._records[start:end], self._marks[start:end])

    def settle(self, first: int, last: int) -> int:
        start, end = self._bounds(first, last)
        settled = self._marks.count(_UNDER_WAY, start, end)
        self._marks[start:end] = _SETTLED * (end - start)
        return settled

    def has_settled(self) -> bool:
        return self._settled_count() > 0

    def take_settled(self) -> int | None:
        count = self._settled_count()
        if not count:
            return None
        end = self._positions[count - 1]
        del self._records[:count], self._positions[:count], self._marks[:count]
        return end

    def first_in_flight(self) -> Record | None:
        return next(iter(self._records[self._settled_count() :]), None)

    def disconnect(self) -> None:
        self._settled_early.update(compress(self._positions, self._marks))
        del self._records[:], self._positions[:], self._marks[:]

    def _bounds(self, first: int, last: int) -> tuple[int, int]:
        return bisect_left(self._positions, first), bisect_right(self._positions, last)

    def _settled_count(self) -> int:
        """How many are settled before the first that is under way."""
        found = self._marks.find(_UNDER_WAY)
        return len(self._marks) if found < 0 else found


def _under_way(records: list[Record], marks: bytes | bytearray) -> list[Record]:
    return [record for record, is_settled in zip(records, marks, strict=True) if not is_settled]
