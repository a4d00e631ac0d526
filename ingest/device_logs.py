"""The account of every device log: which positions have arrived, which are lost, missing, or still on the device.

An archive covers ranges of positions; the ranges of a log follow each other. So a missing archive is a gap between
those that arrived, before the first of them, or behind the last, where only a checkpoint of the device tells of it:

    begin      arrived        missing      arrived     missing   waiting for a receipt   in the journal only
      ├───────────────────┼────────────┼─────────────┼──────────┼──────────────────────┼───────────────┤
                                                              released               archived       committed

Positions number readings, so every length here is a number of readings. The account of a log is as small as its gaps
are few.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.devicelog.entry import LogEntry

Range = tuple[int, int]  # from the first up to, but without, the second


class LogName(NamedTuple):
    device: str
    log: str  # in hex


class LaneTotals(NamedTuple):
    """Readings of one lane of one log. Their sum is what was produced."""

    arrived: int
    lost: int  # positions that archives cover and do not hold
    missing: int
    on_device: int


@dataclass(slots=True)
class LaneAccount:
    begin: int
    end: int  # of the last archive that arrived, also where that covers nothing of this lane
    covered: list[Range] = field(default_factory=list)  # united
    readings: int = 0  # in archives that arrived, each position once

    def add(self, covered: Range, readings: int) -> None:
        """An archive that only covers what others cover, such as one that was replaced, brings nothing new."""
        fresh = subtract(covered, self.covered)
        self.readings += min(readings, length(fresh))
        self.covered = unite([*self.covered, covered])
        self.end = max(self.end, covered[1])


@dataclass(slots=True)
class LogAccount:
    previous_log: str = ""
    journal: str = ""  # the journal that it archives, in hex
    first_sign_ms: int = 0  # when something of this log first and last came, by the centre's clock
    last_sign_ms: int = 0
    lanes: dict[int, LaneAccount] = field(default_factory=dict)
    numbers: list[Range] = field(default_factory=list)  # of archives that arrived or were replaced, united
    received: list[Range] = field(default_factory=list)  # numbers that did not arrive, and that a receipt names
    checkpoint: Checkpoint | None = None  # the newest
    is_forked: bool = False

    def add_archive(self, entry: LogEntry, readings: Mapping[int, int], landed_at_ms: int, journal: str = "") -> None:
        """Enter an archive that was never entered before, with the number of its readings by lane."""
        self.previous_log, self.journal = entry.previous_log.hex(), journal
        self._note_sign(landed_at_ms)
        own = (entry.number, entry.number + 1)
        self.is_forked |= not subtract(own, self.numbers)
        replaced = [(each.number, each.number + 1) for each in entry.replaces]
        self.numbers = unite([*self.numbers, own, *replaced])
        for lane, begin, first, end in entry.lanes:
            self._lane(lane, begin).add((first, end), readings.get(lane, 0))

    def add_checkpoint(self, checkpoint: Checkpoint, landed_at_ms: int) -> None:
        self.previous_log = checkpoint.previous_log.hex()
        self._note_sign(landed_at_ms)
        for lane in checkpoint.lanes:
            self._lane(lane.lane, lane.begin)
        relation = Relation.NEWER if self.checkpoint is None else checkpoint.relation_to(self.checkpoint)
        self.is_forked |= relation is Relation.FORKED
        if relation is Relation.NEWER:
            self.checkpoint = checkpoint

    def missing_numbers(self) -> list[Range]:
        """Of archives that the device has made and that did not arrive; some may still be on the device."""
        last = self.numbers[-1][1] if self.numbers else 0
        return subtract((0, max(last, self.checkpoint.size if self.checkpoint else 0)), self.numbers)

    def missing(self, lane: int, *, is_abandoned: bool = False) -> list[Range]:
        """The positions that should have arrived."""
        account = self.lanes[lane]
        gaps = subtract((account.begin, self._end(lane, is_abandoned=is_abandoned)), account.covered)
        if is_abandoned or self.checkpoint is None or self._all_received():
            return gaps
        waiting = self._waiting(lane)
        return [part for gap in gaps for part in subtract(gap, [waiting])]

    def totals(self, lane: int, *, is_abandoned: bool = False) -> LaneTotals:
        account = self.lanes[lane]
        missing = length(self.missing(lane, is_abandoned=is_abandoned))
        covered = length(account.covered)
        return LaneTotals(
            arrived=account.readings,
            lost=covered - account.readings,
            missing=missing,
            on_device=self._end(lane, is_abandoned=True) - account.begin - covered - missing,
        )

    def _end(self, lane: int, *, is_abandoned: bool) -> int:
        """Where the lane ends in archives; for an abandoned log, where it ended in the journal."""
        stated = [each for each in self.checkpoint.lanes if each.lane == lane] if self.checkpoint else []
        return max([self.lanes[lane].end, *((each.committed if is_abandoned else each.archived) for each in stated)])

    def _waiting(self, lane: int) -> Range:
        """The positions in archives that wait on the device for a receipt, by its newest checkpoint."""
        stated = [each for each in self.checkpoint.lanes if each.lane == lane] if self.checkpoint else []
        return (stated[0].released, stated[0].archived) if stated else (0, 0)

    def _all_received(self) -> bool:
        """Whether every archive that did not arrive here has a receipt, so that none of them waits on the device."""
        gaps = self.missing_numbers()
        return bool(gaps) and not any(subtract(gap, self.received) for gap in gaps)

    def _lane(self, lane: int, begin: int) -> LaneAccount:
        return self.lanes.setdefault(lane, LaneAccount(begin, begin))

    def _note_sign(self, landed_at_ms: int) -> None:
        self.first_sign_ms = min(self.first_sign_ms or landed_at_ms, landed_at_ms)
        self.last_sign_ms = max(self.last_sign_ms, landed_at_ms)

    def to_json(self) -> list[Any]:
        lanes = [[lane, each.begin, each.end, each.covered, each.readings] for lane, each in self.lanes.items()]
        checkpoint = None if self.checkpoint is None else self.checkpoint.to_bytes().hex()
        signs = (self.first_sign_ms, self.last_sign_ms)
        numbers = (self.numbers, self.received)
        return [self.previous_log, self.journal, *signs, lanes, *numbers, checkpoint, self.is_forked]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> "LogAccount":
        previous_log, journal, first_sign_ms, last_sign_ms, lanes, numbers, received, checkpoint, is_forked = values
        return cls(
            previous_log=previous_log,
            journal=journal,
            first_sign_ms=first_sign_ms,
            last_sign_ms=last_sign_ms,
            lanes={lane: LaneAccount(begin, end, _ranges(there), count) for lane, begin, end, there, count in lanes},
            numbers=_ranges(numbers),
            received=_ranges(received),
            checkpoint=None if checkpoint is None else Checkpoint.from_bytes(bytes.fromhex(checkpoint)),
            is_forked=is_forked,
        )


def abandoned_logs(logs: Mapping[LogName, LogAccount]) -> set[LogName]:
    """The logs whose device went on with another one: what was still on the device then is gone.

    A log that gives a sign after the other began is still in use, as with a copied card.
    """
    newest: dict[str, int] = {}
    for (device, _), account in logs.items():
        newest[device] = max(newest.get(device, 0), account.first_sign_ms)
    return {name for name, account in logs.items() if account.last_sign_ms < newest[name.device]}


def unite(ranges: Iterable[Range]) -> list[Range]:
    """The fewest ranges with the same positions, in order."""
    united: list[Range] = []
    for first, end in sorted(each for each in ranges if each[0] < each[1]):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((first, end))
    return united


def subtract(whole: Range, ranges: Iterable[Range]) -> list[Range]:
    """What of `whole` is in none of the ranges, which are united."""
    rest, (position, end) = [], whole
    for first, next_position in ranges:
        if first > position:
            rest.append((position, min(first, end)))
        position = max(position, next_position)
        if position >= end:
            break
    if position < end:
        rest.append((position, end))
    return [each for each in rest if each[0] < each[1]]


def length(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def _ranges(values: Sequence[Sequence[int]]) -> list[Range]:
    return [(first, end) for first, end in values]
