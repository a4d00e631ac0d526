"""Write kept records, with the positions they had, into a fresh segment: for thinning and for repair."""

from agent.journal.lane import Lane
from agent.journal.layout import PAGE_BYTES, Place, encode_block, fits_one_block
from agent.journal.pool import file_name
from agent.journal.records import Record, unknown_loss
from agent.journal.state import Segment
from agent.journal.store import Store


class Rewriter:
    """Takes records by rising position and writes them in blocks as large as may be.

    The blocks cover all positions without a hole, so that what is left out on purpose is not taken for damage. Nothing
    on the medium names the new segment before the state is saved with it.
    """

    def __init__(self, store: Store, lane: Lane, first: int, file: int) -> None:
        """Into `file`, in place of the lane's segments from number `first` on."""
        self._store = store
        self._lane = lane
        self._file = file
        self._first_position = self._covered = lane.segments[first].first_position
        self._end_position = self._first_position
        self._id = store.new_segment_id()
        self._waiting: list[Record] = []
        self._page = 0
        self._is_full = False

    def add(self, records: list[Record]) -> list[Record]:
        """Gives back what there is no room for."""
        if self._is_full or not records:
            return records
        together = self._waiting + records
        payload_bytes, chains = sum(len(record.payload) for record in together), {record.chain for record in together}
        if fits_one_block(len(together), payload_bytes, chains, self._store.settings.max_body_bytes):
            self._waiting = together
            return []
        rejected = self._write_block(records[0].position) if self._waiting else []
        self._waiting = [] if self._is_full else records
        return rejected + records if self._is_full else rejected

    def finish(self, end_position: int) -> list[Record]:
        """Put everything on the medium. Gives back what there is no room for. Raises: OSError."""
        rejected = self._write_block(end_position) if self._waiting else []
        self._end_position = end_position
        self._store.disk.sync(file_name(self._file))
        return rejected

    def segment(self, thinned: int) -> Segment | None:
        """What was written; None if that is nothing."""
        if self._page == 0:
            return None
        segment = Segment(self._file, self._id, self._first_position, thinned)
        if self._is_full:  # the hole at the end is a loss that is told already
            segment.tell(self._end_position, [unknown_loss(self._lane.number, self._covered, self._end_position)])
        return segment

    def _write_block(self, end_position: int) -> list[Record]:
        records, self._waiting = self._waiting, []
        oldest_ms = records[0].committed_at_ms  # so that their age stays known
        place = Place(self._store.journal_id, self._id, self._lane.number, self._page, oldest_ms)
        block = encode_block(
            place,
            self._covered,
            [record.entry for record in records],
            self._store.compress,
            deltas=[record.position - self._covered for record in records],
            span=end_position - self._covered,
        )
        pages = len(block) // PAGE_BYTES
        if self._page + pages > self._store.pool.pages[self._file]:
            self._is_full = True
            return records
        self._store.disk.write(file_name(self._file), self._page * PAGE_BYTES, block)
        self._store.totals.written_bytes += len(block)
        self._page += pages
        self._covered = end_position
        return []
