"""Sheds records when the journal is full: the least important lane first, oldest records first, every loss recorded.

A lane that is thinned loses every second record of each chain: two neighbouring segments are rewritten into one, the
least thinned and oldest pair first, so that the whole lane fades evenly before any part of it is thinned again. All
other lanes lose their oldest segment. What every cursor has passed is no loss.

The `Rewriter` writes the records that are kept into a new segment, for thinning and for repair.
"""

from collections import Counter
from collections.abc import Iterator

from agent.errors import StorageError
from agent.journal.lane import Chunk, Lane
from agent.journal.layout import PAGE_BYTES, Place, encode_block, fits_one_block
from agent.journal.records import LossTally, Record
from agent.journal.segments import file_name
from agent.journal.state import Segment
from agent.journal.store import Store
from protocol.losses import Cause


def shed_for(store: Store, for_lane: int, now_ms: int) -> bool:
    """Shed a file's worth of records that are not more important than `for_lane`. False if there are none.

    Raises: OSError, StorageError.
    """
    expendable = [lane for lane in store.lanes.values() if lane.segments and lane.number >= for_lane]
    if not expendable:
        return False
    lane = max(expendable, key=lambda candidate: candidate.number)
    if lane.number not in store.settings.thinned_lanes or not thin(store, lane, now_ms):
        drop_oldest(store, lane)
    return True


def drop_oldest(store: Store, lane: Lane) -> None:
    tally = store.new_tally(lane, Cause.SHED)
    for chunk in _unreleased(store, lane, 0, 0):
        store.report_damage(lane, chunk)
        tally.add_records(chunk.records)
    store.give_up(lane, tally.losses())
    store.remove_segment(lane, 0)


def thin(store: Store, lane: Lane, now_ms: int) -> bool:
    """Two segments become one that keeps every second record. False if there are no two, or no file to write it to."""
    if len(lane.segments) < 2 or (file := store.pool.take_reserve()) is None:
        return False
    first = _least_thinned_pair(lane)
    try:
        segment, lost = _rewrite_thinner(store, lane, file, first, now_ms)
    except (OSError, StorageError):
        store.pool.put_back_reserve(file)
        raise
    if segment is None:
        store.pool.put_back_reserve(file)
        return False
    store.give_up(lane, lost.losses())
    store.replace_segments(lane, first, first + 1, segment)
    return True


def _rewrite_thinner(store: Store, lane: Lane, file: int, first: int, now_ms: int) -> tuple[Segment | None, LossTally]:
    rewriter = Rewriter(store, lane, first, file, now_ms)
    lost = store.new_tally(lane, Cause.THINNED)
    seen: Counter[str] = Counter()
    for chunk in _unreleased(store, lane, first, first + 1):
        store.report_damage(lane, chunk)
        kept, left_out = _every_second(chunk.records, seen)
        lost.add_records(left_out)
        lost.add_records(rewriter.add(kept))
    lost.add_records(rewriter.finish(lane.end_of(first + 1)))
    level = 1 + max(segment.thinned for segment in lane.segments[first : first + 2])
    return rewriter.segment(level), lost


def _least_thinned_pair(lane: Lane) -> int:
    levels = [segment.thinned for segment in lane.segments]
    return min(range(len(levels) - 1), key=lambda index: max(levels[index], levels[index + 1]))


def _every_second(records: list[Record], seen: Counter[str]) -> tuple[list[Record], list[Record]]:
    kept: list[Record] = []
    lost: list[Record] = []
    for record in records:
        (lost if seen[record.chain] % 2 else kept).append(record)
        seen[record.chain] += 1
    return kept, lost


def _unreleased(store: Store, lane: Lane, first: int, last: int) -> Iterator[Chunk]:
    """What the segments `first` to `last` hold that some cursor has not passed."""
    position = max(lane.segments[first].first_position, store.released_position(lane))
    return store.reader(lane).chunks(position, lane.end_of(last))


class Rewriter:
    """Takes records by rising position and writes them in blocks as large as may be.

    The blocks cover all positions without a hole, so that what is left out on purpose is not taken for damage. Nothing
    on the medium names the new segment before the state is saved with it; but the id in its blocks is reserved there,
    so that no later segment in the same file has it, should this one never be finished.
    """

    def __init__(self, store: Store, lane: Lane, first: int, file: int, now_ms: int) -> None:
        """Into `file`, in place of the lane's segments from number `first` on. Raises: StorageError."""
        self._store = store
        self._lane = lane
        self._file = file
        self._first_position = self._covered = lane.segments[first].first_position
        self._end_position = self._first_position
        self._readings = 0  # written
        self._id = store.reserved_segment_id(now_ms)
        self._waiting: list[Record] = []
        self._page = 0
        self._is_full = False

    def add(self, records: list[Record]) -> list[Record]:
        """Returns the records for which there is no space."""
        if self._is_full or not records:
            return records
        together = self._waiting + records
        readings, payload_bytes = (sum(each) for each in zip(*map(_sizes, together), strict=True))
        chains = {record.chain for record in together}
        if fits_one_block(len(together), readings, payload_bytes, chains, self._store.settings.max_body_bytes):
            self._waiting = together
            return []
        rejected = self._write_block(records[0].position) if self._waiting else []
        self._waiting = [] if self._is_full else records
        return rejected + records if self._is_full else rejected

    def finish(self, end_position: int) -> list[Record]:
        """Put everything on the medium. Returns the records for which there is no space. Raises: OSError."""
        rejected = self._write_block(end_position) if self._waiting else []
        self._end_position = end_position
        self._store.disk.sync(file_name(self._file))
        return rejected

    def segment(self, thinned: int) -> Segment | None:
        """The segment that was written; None if nothing was."""
        if self._page == 0:
            return None
        return Segment(self._file, self._id, self._first_position, thinned, self._left_out(self._end_position))

    def _left_out(self, position: int) -> int:
        """How many of the positions below hold no reading."""
        return position - self._first_position - self._readings

    def _write_block(self, end_position: int) -> list[Record]:
        records, self._waiting = self._waiting, []
        oldest_ms = records[0].committed_at_ms  # so that their age stays known
        left_out = self._left_out(self._covered)
        place = Place(self._store.journal_id, self._id, self._lane.number, self._page, oldest_ms, left_out)
        block = encode_block(
            place,
            self._covered,
            [record.entry for record in records],
            self._store.compress,
            kept_positions=[record.position for record in records],
            end_position=end_position,
        )
        pages = len(block) // PAGE_BYTES
        if self._page + pages > self._store.pool.pages[self._file]:
            self._is_full = True
            return records
        self._store.disk.write(file_name(self._file), self._page * PAGE_BYTES, block)
        self._store.totals.written_bytes += len(block)
        self._page += pages
        self._covered = end_position
        self._readings += sum(record.readings for record in records)
        return []


def _sizes(record: Record) -> tuple[int, int]:
    return record.readings, len(record.payload)
