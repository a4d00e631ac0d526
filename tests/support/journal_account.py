"""An exact account of a journal: what became of every position of a lane.

Positions number readings, so below a lane's next position a cursor got and acknowledged each one, or it can still read
it, or it is lost. The losses that were ever reported must name each lost position, and their counts must add up to the
number of lost positions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from agent.journal import Journal, PendingLoss, Record
from protocol.losses import Cause


class Account:
    def __init__(self, cursors: Sequence[str]) -> None:
        self._cursors = cursors
        self._acknowledged: dict[tuple[str, int], set[int]] = defaultdict(set)

    def acknowledge(self, name: str, records: Iterable[Record]) -> None:
        """The cursor got these records and acknowledged them at once."""
        for record in records:
            self._acknowledged[name, record.lane].update(positions_of(record))

    def go_back(self, journal: Journal) -> None:
        """After a crash: what a cursor acknowledged and was not saved yet comes again."""
        for (name, lane), positions in self._acknowledged.items():
            place = journal.cursor(name).position(lane)
            self._acknowledged[name, lane] = {position for position in positions if position < place}

    def lost(self, journal: Journal, lane: int, readable: set[int], next_position: int) -> set[int]:
        """The positions that some cursor neither got nor can get."""
        lost: set[int] = set()
        for name in self._cursors:
            place = journal.cursor(name).position(lane)
            got = {position for position in self._acknowledged[name, lane] if position < place}
            lost |= set(range(next_position)) - got - {position for position in readable if position >= place}
        return lost


def positions_of(record: Record) -> range:
    return range(record.position, record.next_position)


def check_losses(lost: set[int], gaps: Sequence[PendingLoss], *, is_misread: bool = False) -> None:
    """`is_misread`: reads failed that work again, so that more is reported than is lost.

    In a thinned lane damage may also hide how many of the readings in a block every cursor had got before.
    """
    named = set[int]().union(*(range(gap.loss.first_position, gap.loss.last_position + 1) for gap in gaps))
    assert lost <= named, f"{sorted(lost - named)} are lost, and no loss says so"
    counted = sum(gap.loss.count for gap in gaps)
    is_hidden = is_misread or any(gap.loss.cause == Cause.THINNED for gap in gaps)
    hidden = sum(gap.loss.count for gap in gaps if is_hidden and gap.loss.cause == Cause.DAMAGED)
    assert len(lost) <= counted <= len(lost) + hidden, f"{len(lost)} readings are lost, and {counted} are reported"
