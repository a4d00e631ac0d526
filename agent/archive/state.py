"""The state file of the archive directory: the device log, and how far the journal is archived and released."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from protocol import strict_cbor
from protocol.devicelog.entry import MAX_REPLACED, LogEntry, Replaced
from protocol.devicelog.log import LogHead
from protocol.file_envelope import FileEnvelope
from protocol.strict_cbor import CborBounds, CborValue, items
from protocol.strict_cbor import field as typed

MAX_KEPT_ARCHIVES = 16_384
NOTHING = -1  # before the first position

MAX_STATE_BYTES = 64 * 1024 * 1024
ENVELOPE = FileEnvelope(name="archive state", magic=b"HGASTA", version=4, max_bytes=MAX_STATE_BYTES)
_BOUNDS = CborBounds(max_bytes=MAX_STATE_BYTES, max_items=256 * MAX_KEPT_ARCHIVES, max_depth=6)
_NAMES = ("journal", "log", "archived", "replaces", "deleting", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptArchive:
    """One archive that waits for its receipt."""

    file_name: str
    sha256: bytes  # of the file, encrypted or not: what a receipt names
    size_bytes: int
    entry: LogEntry
    losses: tuple[int, ...] = ()  # the numbers of those in its manifest
    is_of_this_journal: bool = True  # if not, it cannot be archived again: its positions have no meaning here


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    journal_id: bytes
    log: LogHead
    archived_up_to: dict[int, int] = field(default_factory=dict)  # lane → the last position in any archive
    replaces: tuple[Replaced, ...] = ()  # damaged archives, until everything from them on is archived again
    kept: tuple[KeptArchive, ...] = ()
    deleting: str = ""  # the file that a receipt has released, until the next change

    def next_entry(self, reached: Mapping[int, int]) -> LogEntry:
        """The entry of the next archive, which holds the records up to these positions (lane → next position)."""
        if not self.replaces:
            return self.log.entry(reached)
        archived = {lane: last + 1 for lane, last in self.archived_up_to.items()}
        ranges = {lane: (archived.get(lane, self.log.begin(lane)), after) for lane, after in reached.items()}
        return self.log.replacement(ranges, self.replaces[:MAX_REPLACED])

    def with_archive(self, archive: KeptArchive) -> "ArchiveState":
        """Raises: ValueError if it is not the next one of the log."""
        return self.with_found(archive)._with_log(self.log.append(archive.entry, archive.sha256), archive.entry)

    def with_found(self, archive: KeptArchive) -> "ArchiveState":
        """The state with an archive of an earlier log."""
        archived = dict(self.archived_up_to)
        for each in archive.entry.lanes:
            archived[each.lane] = max(each.next - 1, archived.get(each.lane, NOTHING))
        return replace(self, archived_up_to=archived, kept=(*self.kept, archive), deleting="")

    def _with_log(self, log: LogHead, entry: LogEntry) -> "ArchiveState":
        is_caught_up = all(self.archived_up_to.get(lane, NOTHING) + 1 >= end for lane, end in log.ends.items())
        listed = len(entry.replaces) if is_caught_up else 0
        return replace(self, log=log, replaces=self.replaces[listed:])

    def without_archive(self, archive: KeptArchive) -> "ArchiveState":
        return replace(self, kept=tuple(each for each in self.kept if each != archive), deleting=archive.file_name)

    def before_archive(self, archive: KeptArchive) -> "ArchiveState":
        """The state without the archive, which is damaged: its records, and those after it, are archived again.

        It begins before its first record, because losses before that are reported in this archive only.
        """
        archived = dict(self.archived_up_to)
        for each in archive.entry.lanes:
            archived[each.lane] = min(each.first - 1, archived.get(each.lane, NOTHING))
        replaces = {*self.replaces, *archive.entry.replaces, Replaced(archive.entry.number, archive.sha256)}
        is_of_this_log = archive.entry.log == self.log.log
        return replace(
            self.without_archive(archive),
            archived_up_to=archived,
            replaces=tuple(sorted(replaces)) if is_of_this_log else self.replaces,
        )

    def for_journal(self, journal_id: bytes, new_log: bytes) -> "ArchiveState":
        """This state if it is of that journal, else one for a journal of which nothing is archived yet.

        Archives of the old journal still wait for their receipts, but their positions say nothing about the new one.
        """
        if journal_id == self.journal_id:
            return self
        kept = tuple(replace(archive, losses=(), is_of_this_journal=False) for archive in self.kept)
        log = LogHead(log=new_log, previous_log=self.log.log)
        return ArchiveState(journal_id=journal_id, log=log, kept=kept, deleting=self.deleting)

    def with_new_log(self, new_log: bytes) -> "ArchiveState":
        """The state with a log that continues this one, from where the journal is archived."""
        begins = {lane: last + 1 for lane, last in self.archived_up_to.items()}
        return replace(self, log=LogHead(log=new_log, previous_log=self.log.log, begins=begins), replaces=())

    def within(self, next_positions: Mapping[int, int], new_log: bytes) -> "ArchiveState":
        """The state in which no position counts as archived that the journal has not reached (lane → next position).

        There are such positions only if the journal lost its state and the end of a lane, and uses them again. A new
        log begins then.
        """
        archived = {lane: min(last, next_positions.get(lane, 0) - 1) for lane, last in self.archived_up_to.items()}
        if archived == self.archived_up_to:
            return self
        return replace(self, archived_up_to=archived).with_new_log(new_log)

    def released_up_to(self) -> dict[int, int]:
        """Lane → the last position before all archives that wait for a receipt."""
        released = dict(self.archived_up_to)
        for archive in self.kept:
            for each in archive.entry.lanes if archive.is_of_this_journal else ():
                released[each.lane] = min(released.get(each.lane, NOTHING), each.first - 1)
        return released

    def reported_losses(self) -> frozenset[int]:
        """The numbers of the losses in the archives that wait for a receipt."""
        return frozenset(number for archive in self.kept for number in archive.losses)

    def to_bytes(self) -> bytes:
        fields: dict[str, CborValue] = {
            "journal": self.journal_id,
            "log": self.log.to_cbor(),
            "archived": [list(each) for each in sorted(self.archived_up_to.items())],
            "replaces": [list(each) for each in self.replaces],
            "deleting": self.deleting,
            "kept": [_kept_to_cbor(each) for each in self.kept],
        }
        return ENVELOPE.wrap(strict_cbor.encode(fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> "ArchiveState":
        """Raises: WireError."""
        found = strict_cbor.fields(strict_cbor.decode(ENVELOPE.unwrap(data), _BOUNDS), *_NAMES)
        pairs = (items(each, 2) for each in items(found["archived"]))
        replaced = (items(each, 2) for each in items(found["replaces"]))
        return cls(
            journal_id=typed(found["journal"], bytes),
            log=LogHead.from_cbor(found["log"]),
            archived_up_to={typed(lane, int): typed(position, int) for lane, position in pairs},
            replaces=tuple(Replaced(typed(number, int), typed(sha256, bytes)) for number, sha256 in replaced),
            deleting=typed(found["deleting"], str),
            kept=tuple(_kept_from_cbor(each) for each in items(found["kept"])),
        )


def _kept_to_cbor(archive: KeptArchive) -> list[CborValue]:
    named: list[CborValue] = [archive.file_name, archive.sha256, archive.size_bytes, archive.entry.to_cbor()]
    return [*named, list(archive.losses), archive.is_of_this_journal]


def _kept_from_cbor(value: CborValue) -> KeptArchive:
    file_name, sha256, size_bytes, entry, losses, is_of_this_journal = items(value, 6)
    return KeptArchive(
        file_name=typed(file_name, str),
        sha256=typed(sha256, bytes),
        size_bytes=typed(size_bytes, int),
        entry=LogEntry.from_cbor(entry),
        losses=tuple(typed(number, int) for number in items(losses)),
        is_of_this_journal=typed(is_of_this_journal, bool),
    )
