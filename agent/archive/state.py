"""The state file of the archive directory: how far the journal is archived and released."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from protocol import strict_cbor
from protocol.archive.manifest import LaneEntry
from protocol.file_envelope import FileEnvelope
from protocol.strict_cbor import CborBounds, CborValue, items
from protocol.strict_cbor import field as typed

MAX_KEPT_ARCHIVES = 16_384
NOTHING = -1  # before the first position

MAX_STATE_BYTES = 64 * 1024 * 1024
ENVELOPE = FileEnvelope(name="archive state", magic=b"HGASTA", version=3, max_bytes=MAX_STATE_BYTES)
_BOUNDS = CborBounds(max_bytes=MAX_STATE_BYTES, max_items=64 * MAX_KEPT_ARCHIVES, max_depth=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptArchive:
    """One archive that waits for its receipt."""

    file_name: str
    sha256: bytes  # of the file, encrypted or not: what a receipt names
    size_bytes: int
    lanes: tuple[LaneEntry, ...]
    losses: tuple[int, ...] = ()  # the numbers of those in its manifest
    follows: tuple[tuple[int, int], ...] = ()  # lane and the last position in any archive when it was made

    @property
    def is_of_this_journal(self) -> bool:
        """Whether it can be archived again; positions and numbers of another journal have no meaning here."""
        return bool(self.lanes or self.losses)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    journal_id: bytes
    archived_up_to: dict[int, int] = field(default_factory=dict)  # lane → the last position in any archive
    kept: tuple[KeptArchive, ...] = ()
    deleting: str = ""  # the file that a receipt has released, until the next change

    def last_archived(self, lanes: Iterable[LaneEntry]) -> tuple[tuple[int, int], ...]:
        """`follows` of an archive with these lanes that is created now."""
        return tuple((each.lane, self.archived_up_to.get(each.lane, NOTHING)) for each in lanes)

    def with_archive(self, archive: KeptArchive) -> "ArchiveState":
        archived = dict(self.archived_up_to)
        for lane in archive.lanes:
            archived[lane.lane] = max(lane.last_position, archived.get(lane.lane, NOTHING))
        return replace(self, archived_up_to=archived, kept=(*self.kept, archive), deleting="")

    def without_archive(self, archive: KeptArchive) -> "ArchiveState":
        return replace(self, kept=tuple(each for each in self.kept if each != archive), deleting=archive.file_name)

    def before_archive(self, archive: KeptArchive) -> "ArchiveState":
        """The state without the archive: its records, and those after it, are archived again.

        It begins before its first position, because losses before that are reported in this archive only.
        """
        archived, before = dict(self.archived_up_to), dict(archive.follows)
        for lane in archive.lanes:
            archived[lane.lane] = min(before.get(lane.lane, NOTHING), archived.get(lane.lane, NOTHING))
        return replace(self.without_archive(archive), archived_up_to=archived)

    def for_journal(self, journal_id: bytes) -> "ArchiveState":
        """This state if it is of that journal, else one for a journal of which nothing is archived yet.

        Archives of the old journal still wait for their receipts, but their positions say nothing about the new one.
        """
        if journal_id == self.journal_id:
            return self
        kept = tuple(replace(archive, lanes=(), losses=(), follows=()) for archive in self.kept)
        return ArchiveState(journal_id=journal_id, kept=kept, deleting=self.deleting)

    def within(self, next_positions: Mapping[int, int]) -> "ArchiveState":
        """The state in which no position counts as archived that the journal has not reached (lane → next position).

        There are such positions only if the journal lost its state and the end of a lane, and uses them again.
        """
        archived = {lane: min(last, next_positions.get(lane, 0) - 1) for lane, last in self.archived_up_to.items()}
        return self if archived == self.archived_up_to else replace(self, archived_up_to=archived)

    def released_up_to(self) -> dict[int, int]:
        """Lane → the last position before all archives that wait for a receipt."""
        released = dict(self.archived_up_to)
        for lane in (lane for archive in self.kept for lane in archive.lanes):
            released[lane.lane] = min(released[lane.lane], lane.first_position - 1)
        return released

    def reported_losses(self) -> frozenset[int]:
        """The numbers of the losses in the archives that wait for a receipt."""
        return frozenset(number for archive in self.kept for number in archive.losses)

    def to_bytes(self) -> bytes:
        fields: dict[str, CborValue] = {
            "journal": self.journal_id,
            "archived": [list(each) for each in sorted(self.archived_up_to.items())],
            "deleting": self.deleting,
            "kept": [_kept_to_cbor(each) for each in self.kept],
        }
        return ENVELOPE.wrap(strict_cbor.encode(fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> "ArchiveState":
        """Raises: WireError."""
        value = strict_cbor.decode(ENVELOPE.unwrap(data), _BOUNDS)
        found = strict_cbor.fields(value, "journal", "archived", "deleting", "kept")
        pairs = (items(each, 2) for each in items(found["archived"]))
        return cls(
            journal_id=typed(found["journal"], bytes),
            archived_up_to={typed(lane, int): typed(position, int) for lane, position in pairs},
            deleting=typed(found["deleting"], str),
            kept=tuple(_kept_from_cbor(each) for each in items(found["kept"])),
        )


def _kept_to_cbor(archive: KeptArchive) -> list[CborValue]:
    lanes: list[CborValue] = [list(each) for each in archive.lanes]
    follows: list[CborValue] = [list(each) for each in archive.follows]
    return [archive.file_name, archive.sha256, archive.size_bytes, lanes, list(archive.losses), follows]


def _kept_from_cbor(value: CborValue) -> KeptArchive:
    file_name, sha256, size_bytes, lanes, losses, follows = items(value, 6)
    pairs = (items(each, 2) for each in items(follows))
    return KeptArchive(
        file_name=typed(file_name, str),
        sha256=typed(sha256, bytes),
        size_bytes=typed(size_bytes, int),
        lanes=tuple(LaneEntry(*(typed(number, int) for number in items(lane, 4))) for lane in items(lanes)),
        losses=tuple(typed(number, int) for number in items(losses)),
        follows=tuple((typed(lane, int), typed(position, int)) for lane, position in pairs),
    )
