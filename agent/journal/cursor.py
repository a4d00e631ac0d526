"""A reader of the journal whose acknowledged positions survive a restart.

It takes records, which are then sent and acknowledged in order. Records that are not acknowledged come again after
`rewind` or a restart. The position on the medium lags behind, so a crash repeats records and never skips one.
"""

from collections.abc import Mapping

from agent.journal.lane import Lane
from agent.journal.records import Record
from agent.journal.store import Store


class Cursor:
    """Offers the records of all lanes. Within a lane they come by rising position, each once."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self.name = name
        self._acknowledged = store.places[name]
        self._ahead: dict[int, _ReadAhead] = {}

    def position(self, lane: int) -> int:
        """The first position of the lane that is not acknowledged."""
        return self._acknowledged.get(lane, 0)

    def waiting_lanes(self) -> list[int]:
        """The lanes with something to take, the most important first."""
        return [number for number in sorted(self._store.lanes) if self._read_ahead(number).has_more]

    def take(self, max_records: int, *, lane: int | None = None) -> list[Record]:
        """Up to `max_records` of one lane: `lane`, or the most important one that has any. Empty if there are none.

        No more than one block is read at a time, so fewer may come although there are more. Damage met on the way is
        counted, recorded as a gap and passed over.
        """
        for number in self.waiting_lanes() if lane is None else [lane]:
            records = self._read_ahead(number).take(max_records)
            if records:
                return records
        return []

    def acknowledge(self, lane: int, position: int) -> None:
        """Acknowledge everything of the lane up to and including `position`, the last one of a record.

        A record that is acknowledged in part comes again as a whole.
        """
        known = self._store.lane(lane)
        if position >= known.next_position:
            raise ValueError(f"position {position} of lane {lane} is not committed; the next is {known.next_position}")
        if position >= self.position(lane):
            self._acknowledged[lane] = position + 1
            self._store.is_unsaved = True
            self._store.release(known)

    def note_copied(self, up_to: Mapping[int, int]) -> None:
        """Note the records of which this reader has a copy, though it did not acknowledge them: per lane, the last.

        Shedding them is no loss to this reader yet. The note does not survive a restart.
        """
        self._store.copied[self.name] = {lane: position + 1 for lane, position in up_to.items()}

    def rewind(self) -> None:
        """Begin again with the first record that is not acknowledged."""
        self._ahead.clear()

    def _read_ahead(self, number: int) -> "_ReadAhead":
        if number not in self._ahead:
            self._ahead[number] = _ReadAhead(self._store, self._store.lane(number), self.position(number))
        return self._ahead[number]


class _ReadAhead:
    """The read position of a cursor in one lane, and the rest of the block it is in."""

    def __init__(self, store: Store, lane: Lane, position: int) -> None:
        self._store = store
        self._lane = lane
        self._position = position
        self._reader = store.reader(lane)
        self._records: list[Record] = []
        self._chunk_end = position
        self._changes = lane.changes

    @property
    def has_more(self) -> bool:
        return self._position < self._lane.durable_position

    def take(self, max_records: int) -> list[Record]:
        if self._changes != self._lane.changes:  # records were shed, perhaps some of those read ahead
            self._records, self._changes = [], self._lane.changes
        while not self._records and self.has_more:
            self._read_chunk()
        taken, self._records = self._records[:max_records], self._records[max_records:]
        if taken:
            self._position = taken[-1].next_position if self._records else self._chunk_end
        return taken

    def _read_chunk(self) -> None:
        if not self._lane.segments:
            self._position = self._lane.next_position
            return
        chunk = self._reader.read(self._position)
        self._store.report_damage(self._lane, chunk)
        self._records, self._chunk_end = chunk.records, chunk.end_position
        if not chunk.records:
            self._position = chunk.end_position
