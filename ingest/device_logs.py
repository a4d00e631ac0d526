"""The account of every device log: which positions have arrived, which are lost, missing, or still on the device.

An archive covers ranges of positions; the ranges of a log follow each other. So a missing archive is a gap between
those that arrived, before the first of them, or behind the last, where only a checkpoint of the device tells of it:

    begin      arrived        missing      arrived     missing   waiting for a receipt   in the journal only
      ├───────────────────┼────────────┼─────────────┼──────────┼──────────────────────┼───────────────┤
                                                              released               archived       committed

A device that begins a new log archives there what was only in its journal: the old log ends where the new one begins.
Positions number readings, so every length here is a number of readings. The account of a log is as small as its gaps
are few.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from protocol.devicelog.checkpoint import Checkpoint, LaneState, Relation
from protocol.devicelog.entry import LogEntry
from protocol.losses import MAX_POSITION

Range = tuple[int, int]  # from the first up to, but without, the second


class LogName(NamedTuple):
    device: str
    log: str  # in hex


class Ending(NamedTuple):
    """What other logs of the device say about the end of a log."""

    is_abandoned: bool = False  # the device went on with another log
    taken_over: Mapping[int, int] = MappingProxyType({})  # lane → the position from which another log has the readings


IN_USE: Final = Ending()


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

    def missing(self, lane: int, ending: Ending = IN_USE) -> list[Range]:
        """The positions that should have arrived."""
        account = self.lanes[lane]
        end = self._committed(lane, ending) if ending.is_abandoned else self._archived(lane, ending)
        gaps = subtract((account.begin, end), account.covered)
        if ending.is_abandoned or self.checkpoint is None or self._all_received():
            return gaps
        waiting = self._waiting(lane)
        return [part for gap in gaps for part in subtract(gap, [waiting])]

    def totals(self, lane: int, ending: Ending = IN_USE) -> LaneTotals:
        account = self.lanes[lane]
        missing = length(self.missing(lane, ending))
        covered = length(account.covered)
        return LaneTotals(
            arrived=account.readings,
            lost=covered - account.readings,
            missing=missing,
            on_device=self._committed(lane, ending) - account.begin - covered - missing,
        )

    def received_up_to(self, lane: int) -> int:
        """The position behind all that arrived, or that receipts cover by the newest checkpoint."""
        return max(self.lanes[lane].end, *(each.released for each in self._stated(lane)), 0)

    def _archived(self, lane: int, ending: Ending) -> int:
        """Where the lane ends in archives."""
        return self._last_of(lane, [each.archived for each in self._stated(lane)], ending)

    def _committed(self, lane: int, ending: Ending) -> int:
        """Where the lane ends in the journal."""
        return self._last_of(lane, [each.committed for each in self._stated(lane)], ending)

    def _last_of(self, lane: int, stated: list[int], ending: Ending) -> int:
        arrived, taken_over = self.lanes[lane].end, ending.taken_over.get(lane, MAX_POSITION)
        return max([arrived, *(min(each, taken_over) for each in stated)])

    def _waiting(self, lane: int) -> Range:
        """The positions in archives that wait on the device for a receipt, by its newest checkpoint."""
        stated = self._stated(lane)
        return (stated[0].released, stated[0].archived) if stated else (0, 0)

    def _stated(self, lane: int) -> list[LaneState]:
        """What the newest checkpoint says of the lane."""
        return [each for each in self.checkpoint.lanes if each.lane == lane] if self.checkpoint else []

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


def find_endings(logs: Mapping[LogName, LogAccount]) -> dict[LogName, Ending]:
    """How each log ends. What only the device had of an abandoned log, and no other log has, is gone.

    A log that gives a sign after the other began is still in use, as with a copied card.
    """
    newest: dict[str, int] = {}
    taken_over: dict[LogName, dict[int, int]] = {}
    for (device, _), account in logs.items():
        newest[device] = max(newest.get(device, 0), account.first_sign_ms)
        before = LogName(device, account.previous_log)
        if before in logs:
            ends = taken_over.setdefault(before, {})
            for lane, begin in _continues(account, logs[before]):
                ends[lane] = max(begin, ends.get(lane, 0))
    return {
        name: Ending(account.last_sign_ms < newest[name.device], taken_over.get(name, {}))
        for name, account in logs.items()
    }


def _continues(account: LogAccount, before: LogAccount) -> Iterator[tuple[int, int]]:
    """Each lane in which a log begins behind all that arrived or was received of the one before it.

    A log that begins earlier is of an old copy of the journal: it has other readings at the same positions.
    """
    is_other_journal = account.journal and before.journal and account.journal != before.journal
    for lane, each in account.lanes.items():
        if lane in before.lanes and not is_other_journal and each.begin >= before.received_up_to(lane):
            yield lane, each.begin


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
