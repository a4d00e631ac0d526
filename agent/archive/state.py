"""The state file of the archive directory: the end of the device log, and the archives that wait for a receipt.

Positions before the end of the log are archived. Those of an archive that was damaged on the disk are archived again,
in an archive that replaces it. If the log cannot go on, a new one begins where the old one can no longer be relied on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from protocol import strict_cbor
from protocol.devicelog.entry import MAX_REPLACED, LogEntry, Replaced
from protocol.devicelog.log import LogHead
from protocol.file_envelope import FileEnvelope
from protocol.strict_cbor import CborBounds, CborValue, items
from protocol.strict_cbor import field as typed

MAX_KEPT_ARCHIVES = 16_384

MAX_STATE_BYTES = 64 * 1024 * 1024
ENVELOPE = FileEnvelope(name="archive state", magic=b"HGASTA", version=4, max_bytes=MAX_STATE_BYTES)
_BOUNDS = CborBounds(max_bytes=MAX_STATE_BYTES, max_items=256 * MAX_KEPT_ARCHIVES, max_depth=6)
_NAMES = ("journal", "log", "reason", "lost", "damaged", "deleting", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptArchive:
    """One archive that waits for its receipt."""

    file_name: str
    sha256: bytes  # of the file, encrypted or not: what a receipt names
    size_bytes: int
    entry: LogEntry
    losses: tuple[int, ...] = ()  # the numbers of those in its manifest
    lost: tuple[tuple[int, int], ...] = ()  # lane, and how many of the readings that it covers are not in it
    is_of_this_journal: bool = True  # if not, it cannot be archived again: its positions have no meaning here


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedArchive:
    """An archive of the log that was damaged on the disk, until all of its positions are archived again."""

    replaces: tuple[Replaced, ...]  # it, and what it replaced itself
    ranges: Mapping[int, tuple[int, int]]  # lane → first and next position that are still to be archived again


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    journal_id: bytes
    log: LogHead
    reason: str = ""  # why the log began, if it continues another one
    lost: Mapping[int, int] = field(default_factory=dict)  # lane → readings that archives of the log cover as lost
    damaged: tuple[DamagedArchive, ...] = ()
    kept: tuple[KeptArchive, ...] = ()
    deleting: tuple[str, ...] = ()  # files that are needed no longer, until the next change

    # What is archived

    def covers(self, lane: int, first: int, last: int) -> bool:
        """Whether archives cover all of these positions."""
        ranges = (each.ranges.get(lane, (0, 0)) for each in self.damaged)
        return last < self.log.end(lane) and not any(begin <= last and first < after for begin, after in ranges)

    def is_wanted(self, lane: int, position: int) -> bool:
        """Whether it goes into the next archive: what a damaged archive held comes first, and alone."""
        return _holds(self.damaged[0], lane, position) if self.damaged else position >= self.log.end(lane)

    def is_replaced(self, up_to: Mapping[int, int]) -> bool:
        """Whether an archive up to these positions covers all of a damaged one, whatever is still in the journal."""
        ends = self.damaged[0].ranges.items() if self.damaged else ()
        return bool(self.damaged) and all(up_to.get(lane, 0) >= after for lane, (_, after) in ends)

    def copied_up_to(self) -> dict[int, int]:
        """Lane → the last position before anything that is not archived."""
        return self._before_all(each.ranges for each in self.damaged)

    def released_up_to(self) -> dict[int, int]:
        """Lane → the last position before all archives that wait for a receipt, or were damaged."""
        waiting = (_ranges_of(each.entry) for each in self.kept if each.is_of_this_journal)
        return self._before_all([*waiting, *(each.ranges for each in self.damaged)])

    def _before_all(self, waiting: Iterable[Mapping[int, tuple[int, int]]]) -> dict[int, int]:
        ends = {lane: self.log.end(lane) - 1 for lane in self.log.lanes}
        for ranges in waiting:
            for lane, (first, _) in ranges.items():
                ends[lane] = min(first - 1, ends.get(lane, first))
        return ends

    def reported_losses(self) -> frozenset[int]:
        """The numbers of the losses in the archives that wait for a receipt."""
        return frozenset(number for archive in self.kept for number in archive.losses)

    # Archives come and go

    def next_entry(self, up_to: Mapping[int, int]) -> LogEntry:
        """The entry of the next archive, which covers all that is wanted before these positions (by lane)."""
        if not self.damaged:
            known = {lane: max(after, self.log.end(lane)) for lane, after in up_to.items()}
            return self.log.entry({lane: after for lane, after in known.items() if after > 0})
        ranges = {
            lane: (first, min(after, max(first, up_to.get(lane, first))))
            for lane, (first, after) in self.damaged[0].ranges.items()
        }
        return self.log.replacement(ranges, self.damaged[0].replaces)

    def with_archive(self, archive: KeptArchive) -> "ArchiveState":
        """Raises: ValueError if it is not the next one of the log."""
        return replace(
            self,
            log=self.log.append(archive.entry, archive.sha256),
            lost=_added(self.lost, archive.lost, 1),
            damaged=self._still_damaged(archive.entry),
            kept=(*self.kept, archive),
            deleting=(),
        )

    def _still_damaged(self, entry: LogEntry) -> tuple[DamagedArchive, ...]:
        if not entry.replaces:
            return self.damaged
        first, *others = self.damaged
        reached = {each.lane: each.next for each in entry.lanes}
        rest = {lane: (reached[lane], after) for lane, (_, after) in first.ranges.items() if reached[lane] < after}
        return (replace(first, ranges=rest), *others) if rest else tuple(others)

    def without_archive(self, archive: KeptArchive) -> "ArchiveState":
        kept = tuple(each for each in self.kept if each != archive)
        return replace(self, kept=kept, deleting=(archive.file_name,))

    def with_damaged(self, archive: KeptArchive) -> "ArchiveState":
        """The state without an archive of the log that is damaged: its positions are archived again."""
        replaces = (*archive.entry.replaces, Replaced(archive.entry.number, archive.sha256))
        damaged = DamagedArchive(replaces=replaces[-MAX_REPLACED:], ranges=_ranges_of(archive.entry))
        return replace(
            self.without_archive(archive),
            lost=_added(self.lost, archive.lost, -1),
            damaged=(*self.damaged, damaged),
        )

    # Logs

    def for_journal(self, journal_id: bytes, new_log: bytes, begins: Mapping[int, int]) -> "ArchiveState":
        """This state if it is of that journal, else one for a journal of which nothing is archived yet.

        That journal begins at `begins`, by lane. Archives of the old journal still wait for their receipts, but their
        positions say nothing about the new one.
        """
        if journal_id == self.journal_id:
            return self
        return ArchiveState(
            journal_id=journal_id,
            log=LogHead(log=new_log, previous_log=self.log.log, begins=begins),
            reason="the journal is a new one",
            kept=tuple(replace(archive, losses=(), is_of_this_journal=False) for archive in self.kept),
            deleting=self.deleting,
        )

    def with_new_log(self, new_log: bytes, reason: str, again: tuple[KeptArchive, ...] = ()) -> "ArchiveState":
        """The state with a log that continues this one, before the first position of these archives and the damaged.

        They are dropped, and everything from there on is archived in the new log.
        """
        ends = self._before_all([*(_ranges_of(each.entry) for each in again), *(each.ranges for each in self.damaged)])
        begins = {lane: last + 1 for lane, last in ends.items()}
        return ArchiveState(
            journal_id=self.journal_id,
            log=LogHead(log=new_log, previous_log=self.log.log, begins=begins),
            reason=reason,
            kept=tuple(each for each in self.kept if each not in again),
            deleting=tuple(each.file_name for each in again),
        )

    # Bytes

    def to_bytes(self) -> bytes:
        fields: dict[str, CborValue] = {
            "journal": self.journal_id,
            "log": self.log.to_cbor(),
            "reason": self.reason,
            "lost": [list(each) for each in sorted(self.lost.items())],
            "damaged": [_damaged_to_cbor(each) for each in self.damaged],
            "deleting": list(self.deleting),
            "kept": [_kept_to_cbor(each) for each in self.kept],
        }
        return ENVELOPE.wrap(strict_cbor.encode(fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> "ArchiveState":
        """Raises: WireError."""
        found = strict_cbor.fields(strict_cbor.decode(ENVELOPE.unwrap(data), _BOUNDS), *_NAMES)
        return cls(
            journal_id=typed(found["journal"], bytes),
            log=LogHead.from_cbor(found["log"]),
            reason=typed(found["reason"], str),
            lost=dict(_pairs(found["lost"])),
            damaged=tuple(_damaged_from_cbor(each) for each in items(found["damaged"])),
            deleting=tuple(typed(each, str) for each in items(found["deleting"])),
            kept=tuple(_kept_from_cbor(each) for each in items(found["kept"])),
        )


def _holds(damaged: DamagedArchive, lane: int, position: int) -> bool:
    first, after = damaged.ranges.get(lane, (0, 0))
    return first <= position < after


def _ranges_of(entry: LogEntry) -> dict[int, tuple[int, int]]:
    return {each.lane: (each.first, each.next) for each in entry.lanes if each.first < each.next}


def _added(lost: Mapping[int, int], counts: Iterable[tuple[int, int]], sign: int) -> dict[int, int]:
    return {**lost, **{lane: lost.get(lane, 0) + sign * count for lane, count in counts}}


def _pairs(value: CborValue) -> tuple[tuple[int, int], ...]:
    pairs = (items(each, 2) for each in items(value))
    return tuple((typed(one, int), typed(other, int)) for one, other in pairs)


def _damaged_to_cbor(damaged: DamagedArchive) -> list[CborValue]:
    ranges: list[CborValue] = [[lane, *each] for lane, each in sorted(damaged.ranges.items())]
    return [[list(each) for each in damaged.replaces], ranges]


def _damaged_from_cbor(value: CborValue) -> DamagedArchive:
    replaces, ranges = items(value, 2)
    numbers = (items(each, 2) for each in items(replaces))
    triples = ([typed(number, int) for number in items(each, 3)] for each in items(ranges))
    return DamagedArchive(
        replaces=tuple(Replaced(typed(number, int), typed(sha256, bytes)) for number, sha256 in numbers),
        ranges={lane: (first, after) for lane, first, after in triples},
    )


def _kept_to_cbor(archive: KeptArchive) -> list[CborValue]:
    named: list[CborValue] = [archive.file_name, archive.sha256, archive.size_bytes, archive.entry.to_cbor()]
    return [*named, list(archive.losses), [list(each) for each in archive.lost], archive.is_of_this_journal]


def _kept_from_cbor(value: CborValue) -> KeptArchive:
    file_name, sha256, size_bytes, entry, losses, lost, is_of_this_journal = items(value, 7)
    return KeptArchive(
        file_name=typed(file_name, str),
        sha256=typed(sha256, bytes),
        size_bytes=typed(size_bytes, int),
        entry=LogEntry.from_cbor(entry),
        losses=tuple(typed(number, int) for number in items(losses)),
        lost=_pairs(lost),
        is_of_this_journal=typed(is_of_this_journal, bool),
    )
