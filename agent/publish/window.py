"""What is under way: sent, not yet settled. No I/O, no clock.

A record is *settled* when the far end has acknowledged it or it was set aside. Settling happens in any order; the
journal is told only of the unbroken run of settled records at the start of each lane, so that a crash or a lost
connection repeats and never skips.

    lane 1:   ── acknowledged ──►│ 7 settled │ 8 settled │ 9 under way │ 10 settled │ 11 under way
                                 └ the journal may be told of 8 ┘        └ waits for 9 ┘

After a lost connection what is not settled is sent again. What was settled already is remembered, and not sent again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from agent.journal import Record

__all__ = ["Window"]

_LANE, _POSITION = attrgetter("lane"), attrgetter("position")


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
    """One lane: what was added and not yet told of, and what of it is under way; both by rising position."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._under_way: dict[int, Record] = {}
        self._settled_early: set[int] = set()  # settled on a connection that was lost, behind one that was not

    def add(self, records: list[Record]) -> list[Record]:
        """Those that are to be sent."""
        early = self._settled_early
        to_send = [record for record in records if record.position not in early] if early else records
        # What lies before will not come again: it was shed meanwhile, or it is one of these.
        self._settled_early = {position for position in early if position > records[-1].position}
        self._positions += map(_POSITION, records)
        self._under_way.update(zip(map(_POSITION, to_send), to_send, strict=True))
        return to_send

    def under_way(self, first: int, last: int) -> list[Record]:
        return [self._under_way[each] for each in self._positions_in(first, last) if each in self._under_way]

    def settle(self, first: int, last: int) -> int:
        before, take_away = len(self._under_way), self._under_way.pop
        for position in self._positions_in(first, last):
            take_away(position, None)
        return before - len(self._under_way)

    def has_settled(self) -> bool:
        return bool(self._positions) and self._positions[0] not in self._under_way

    def take_settled(self) -> int | None:
        if not self.has_settled():
            return None
        first_in_flight = next(iter(self._under_way), self._positions[-1] + 1)
        count = bisect_left(self._positions, first_in_flight)
        end = self._positions[count - 1]
        del self._positions[:count]
        return end

    def first_in_flight(self) -> Record | None:
        return next(iter(self._under_way.values()), None)

    def disconnect(self) -> None:
        self._settled_early.update(position for position in self._positions if position not in self._under_way)
        self._positions.clear()
        self._under_way.clear()

    def _positions_in(self, first: int, last: int) -> Sequence[int]:
        """Of the run; some may be missing, where records were shed."""
        if first == last:
            return (first,)
        return self._positions[bisect_left(self._positions, first) : bisect_right(self._positions, last)]
