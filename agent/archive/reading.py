"""Reads the records of the journal for archives, lane by lane, in another thread than the journal's."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from agent.journal import Record as JournalRecord
from agent.journal.cursor import Cursor
from protocol.archive.records import Record

RECORDS_PER_CALL: Final = 1000
BYTES_PER_CALL: Final = 1 << 20  # beyond it no further block is read


class LaneRecords:
    """The records of each lane from the cursor up to a position, and perhaps some that were committed since.

    `up_to` says how far each lane was read completely: what is not among the records before that was lost.
    """

    def __init__(self, read: Callable[[int], list[JournalRecord] | None], limits: Mapping[int, int]) -> None:
        """`read` returns the next records of a lane: none at its end, None to stop early. `limits`: lane → the position
        to read up to."""
        self.up_to: dict[int, int] = {}
        self._read = read
        self._limits = limits

    def __iter__(self) -> Iterator[Record]:
        for lane, limit in sorted(self._limits.items()):
            reached = 0
            while reached < limit:
                records = self._read(lane)
                if records is None:
                    return
                yield from map(to_archive_record, records)
                reached = records[-1].next_position if records else limit
            self.up_to[lane] = reached


def take_several(cursor: Cursor, lane: int) -> list[JournalRecord]:
    """Read several blocks in one call to the journal's thread. In an overload each call waits for a commit, so with
    one block per call records would be shed faster than they are archived."""
    read: list[JournalRecord] = []
    size_bytes = 0
    while len(read) < RECORDS_PER_CALL and size_bytes < BYTES_PER_CALL:
        if not (more := cursor.take(RECORDS_PER_CALL - len(read), lane=lane)):
            break
        read += more
        size_bytes += sum([len(record.payload) for record in more])
    return read


def to_archive_record(record: JournalRecord) -> Record:
    return Record(
        text=record.payload,
        chain=record.chain,
        timestamp_ms=record.timestamp_ms,
        sequence=record.sequence,
        lane=record.lane,
        position=record.position,
        arrived_at_ms=record.committed_at_ms,
        readings=record.readings,
    )
