"""What is under way: sent, not yet settled. No I/O, no clock.

A record is *settled* when the far end has acknowledged it or it was set aside. Settling happens in any order; the
journal is told only of the unbroken run of settled records at the start of each lane, so that a crash or a lost
connection repeats and never skips.

    lane 1:   ── acknowledged ──►│ 7 settled │ 8 settled │ 9 under way │ 10 settled │ 11 under way
                                 └ the journal may be told of 8 ┘        └ waits for 9 ┘

After a lost connection what is not settled is sent again. What was settled already is remembered, and not sent again.
"""

from collections import deque
from collections.abc import Iterable

from agent.journal import Record
from agent.publish.contract import Outcome

__all__ = ["Window"]


class Window:
    """The records of one publisher that are under way, per lane and by rising position."""

    def __init__(self) -> None:
        self._lanes: dict[int, _LaneWindow] = {}
        self.in_flight = 0

    def add(self, records: Iterable[Record]) -> list[Record]:
        """Take records of any lane, by rising position; give those to send: all but the ones settled already."""
        to_send = [record for record in records if self._lane(record.lane).add(record)]
        self.in_flight += len(to_send)
        return to_send

    def settle_all(self, outcomes: Iterable[Outcome]) -> int:
        """How many of them were under way."""
        return sum([self.settle(outcome.lane, outcome.position) for outcome in outcomes])

    def get(self, lane: int, position: int) -> Record | None:
        """The record, if it is under way."""
        known = self._lanes.get(lane)
        return None if known is None else known.get(position)

    def settle(self, lane: int, position: int) -> bool:
        """Whether it was under way: a proof that comes twice, or too late, changes nothing."""
        known = self._lanes.get(lane)
        if known is None or not known.settle(position):
            return False
        self.in_flight -= 1
        return True

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
    """One lane: what was added and not yet told of, oldest first, and what of it is under way."""

    def __init__(self) -> None:
        self._positions: deque[int] = deque()
        self._under_way: dict[int, Record] = {}
        self._settled_early: set[int] = set()  # settled on a connection that was lost, behind one that was not

    def add(self, record: Record) -> bool:
        """Whether the record is to be sent."""
        position = record.position
        self._positions.append(position)
        if self._settled_early:
            is_settled = position in self._settled_early
            # What lies before will not come again: it was shed meanwhile, or it is this very one.
            self._settled_early = {each for each in self._settled_early if each > position}
            if is_settled:
                return False
        self._under_way[position] = record
        return True

    def get(self, position: int) -> Record | None:
        return self._under_way.get(position)

    def settle(self, position: int) -> bool:
        return self._under_way.pop(position, None) is not None

    def has_settled(self) -> bool:
        return bool(self._positions) and self._positions[0] not in self._under_way

    def take_settled(self) -> int | None:
        end = None
        positions, under_way = self._positions, self._under_way
        while positions and positions[0] not in under_way:
            end = positions.popleft()
        return end

    def first_in_flight(self) -> Record | None:
        return next(iter(self._under_way.values()), None)

    def disconnect(self) -> None:
        self._settled_early.update(position for position in self._positions if position not in self._under_way)
        self._positions.clear()
        self._under_way.clear()
