"""The shared state of an open journal (lanes, files, cursors, losses, totals), and how it becomes durable."""

import contextlib
from collections.abc import Iterable

import zstandard

from agent.errors import StorageError
from agent.journal.disk import Disk
from agent.journal.lane import Chunk, Lane, LaneReader
from agent.journal.layout import PAGE_BYTES, Compress, Head
from agent.journal.losses import LossLedger, PendingLoss
from agent.journal.records import LossTally, damage, not_below
from agent.journal.recovery import rebuild_state, recover_lane
from agent.journal.segments import SegmentPool, file_name, read_page
from agent.journal.settings import JournalSettings
from agent.journal.state import SEGMENT_IDS_AHEAD, LaneState, Segment, State, StateFiles
from agent.journal.stats import RateMeter
from protocol.losses import Cause, Loss

MAX_REPORTED_CHUNKS = 16  # of one segment, whose damage is stored as reported

# Level 1 with a hash table that fits the first cache and long matches only: what repeats in signed messages is long.
# Measured on them: a seventh less time than level 1 alone, and no larger.
ZSTD_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, hash_log=12, min_match=7)


class Store:
    """Opens the journal on the disk. A change of the set of segments is on the medium before anything relies on it."""

    def __init__(self, disk: Disk, settings: JournalSettings, new_journal_id: int) -> None:
        self.disk = disk
        self.settings = settings
        self.pool = SegmentPool(
            disk,
            segment_bytes=settings.segment_bytes,
            max_segments=settings.max_segments,
            spare_segments=settings.spare_segments,
            keep_reserve=bool(settings.thinned_lanes),
            min_free_bytes=settings.min_free_bytes,
        )
        self._compressor = zstandard.ZstdCompressor(compression_params=ZSTD_PARAMETERS)
        self._files = StateFiles(disk, settings.state_bytes)
        self._sync_names()
        loaded = self._files.load()
        self._state = loaded or rebuild_state(disk, self.pool.pages, new_journal_id)
        self.lanes: dict[int, Lane] = {}
        self.losses = LossLedger(
            self._state.journal_id, self._state.losses, self._state.reported_losses, self._state.next_loss
        )
        self._next_segment_id = self._reserved_below = self._state.next_segment_id
        self.totals = self._state.totals
        self.places = {name: dict(self._state.cursors.get(name, {})) for name in settings.cursors}
        self.byte_rate = RateMeter(self.totals.bytes_per_s)
        self.commit_rate = RateMeter(self.totals.commits_per_s)
        self.copied: dict[str, dict[int, int]] = {}  # cursor → lane → the first position of which it has no copy
        self.is_vital_unsaved = loaded is None  # segments or losses changed since the last save
        self.is_unsaved = False  # a cursor moved or a loss was acknowledged since the last save
        self._recover_lanes()

    @property
    def journal_id(self) -> int:
        return self._state.journal_id

    @property
    def compress(self) -> Compress | None:
        return self._compressor.compress if self.settings.compression == "zstd" else None

    def lane(self, number: int) -> Lane:
        if number not in self.lanes:
            self.lanes[number] = Lane(number, [], 0)
        return self.lanes[number]

    def reader(self, lane: Lane) -> LaneReader:
        return LaneReader(self.disk, self.journal_id, lane, self.pool.pages)

    # Segments

    def reserved_segment_id(self, now_ms: int) -> int:
        """One that the state on the medium counts as used, so that blocks may have it at once. Raises: StorageError."""
        if self._next_segment_id >= self._reserved_below:
            self.is_vital_unsaved = True
            self.save(now_ms)
        return self._new_segment_id()

    def _new_segment_id(self) -> int:
        self._next_segment_id += 1
        return self._next_segment_id - 1

    def add_segment(self, lane: Lane, file: int, now_ms: int) -> None:
        """Begin a segment; when this returns, the state on the medium names it. Raises: StorageError."""
        segment = Segment(file, self._new_segment_id(), lane.next_position)
        lane.segments.append(segment)
        self.is_vital_unsaved = True
        try:
            self.save(now_ms)
        except StorageError:
            lane.segments.remove(segment)
            self.pool.give_back(file)
            raise
        lane.write_page = 0

    def remove_segment(self, lane: Lane, index: int) -> None:
        """Its file may be written to again once the state is saved."""
        if index == len(lane.segments) - 1:
            lane.write_page = lane.doubtful = None
        self.pool.give_back(lane.segments.pop(index).file)
        lane.changes += 1
        self.is_vital_unsaved = True

    def replace_segments(self, lane: Lane, first: int, last: int, segment: Segment) -> None:
        for index in range(last, first - 1, -1):
            self.remove_segment(lane, index)
        lane.segments.insert(first, segment)

    # Cursors

    def released_position(self, lane: Lane) -> int:
        """Below this every cursor has acknowledged everything."""
        return min(places.get(lane.number, 0) for places in self.places.values())

    def release(self, lane: Lane) -> None:
        """Release the segments that every cursor has passed, all but the one being written."""
        released = self.released_position(lane)
        kept = 0 if lane.write_page is None else 1
        while len(lane.segments) > kept and lane.end_of(0) <= released:
            self.remove_segment(lane, 0)

    def behind(self, lane: Lane, end_position: int) -> tuple[str, ...]:
        """The cursors that have not passed `end_position`."""
        return tuple(name for name, places in self.places.items() if places.get(lane.number, 0) < end_position)

    def copied_below(self, lane: Lane, name: str) -> int:
        """Below this the cursor has a copy of its own of everything."""
        return self.copied.get(name, {}).get(lane.number, 0)

    def new_tally(self, lane: Lane, cause: Cause) -> LossTally:
        return LossTally(cause, max((self.copied_below(lane, name) for name in self.copied), default=0))

    # Counts and losses

    def count_commit(self, records: int, readings: int, payload_bytes: int) -> None:
        self.totals.commits += 1
        self.totals.records += records
        self.totals.readings += readings
        self.totals.payload_bytes += payload_bytes
        self.commit_rate.add(1)

    def give_up(self, lane: Lane, losses: list[Loss]) -> None:
        """Record as lost what is dropped because the journal is full; durable with the next save."""
        self.totals.shed_readings += self._record_losses(lane, losses)

    def report_damage(self, lane: Lane, chunk: Chunk) -> None:
        """Record damage that a reader found as lost, once, however often it is found; and damage that was added since.

        If a segment is damaged in more places than are stored, all of it up to here is reported as lost at once.
        Losses reported before are not counted again.
        """
        segment = chunk.segment
        if segment is None or not (unreported := segment.count_unreported(chunk.end_position, chunk.losses)):
            return
        losses = chunk.losses
        if len(segment.reported) >= MAX_REPORTED_CHUNKS:
            loss = damage(lane.number, segment.first_position, chunk.end_position)
            losses, unreported = [loss], loss.count - segment.count_reported_below(chunk.end_position)
            segment.mark_all_reported_below(chunk.end_position)
        else:
            segment.mark_reported(chunk.end_position, losses)
        if unreported < sum(loss.count for loss in losses):
            first = min(loss.first_position for loss in losses)
            losses = [damage(lane.number, first, chunk.end_position, count=unreported)]
        self.totals.damaged_readings += self._record_losses(lane, losses)

    def _record_losses(self, lane: Lane, losses: Iterable[Loss]) -> int:
        """Record losses, all of one cause, and count their readings; those that every cursor has passed are none."""
        tally = self.new_tally(lane, Cause.DAMAGED)
        for loss in losses:
            if missed := not_below(loss, self.released_position(lane)):
                tally.add(missed)
        for loss in tally.losses():
            missed_by = self.behind(lane, loss.last_position + 1)
            copied_by = tuple(name for name in missed_by if self.copied_below(lane, name) > loss.last_position)
            self.losses.record([loss], missed_by, copied_by)
            self.is_vital_unsaved = True
        return sum(loss.count for loss in tally.losses())

    # Durability

    def save(self, now_ms: int | None) -> None:
        """Put the state on the medium: both copies if segments or losses changed. Raises: StorageError.

        Without `now_ms`, the rates in it stay as they were.
        """
        state = self._snapshot(now_ms)
        try:
            written_bytes = self._files.save(state, copies=2 if self.is_vital_unsaved else 1)
            if self.is_vital_unsaved:
                self._reserved_below = state.next_segment_id
            self.is_vital_unsaved = self.is_unsaved = False
            self.totals.written_bytes += written_bytes
            self.pool.settle()
        except OSError as error:
            raise StorageError(f"cannot save the journal's state: {error.strerror or error}") from error

    def _snapshot(self, now_ms: int | None) -> State:
        state = self._state
        state.lanes = {number: LaneState(lane.next_position, lane.segments) for number, lane in self.lanes.items()}
        state.cursors = self.places
        state.next_segment_id = self._next_segment_id + SEGMENT_IDS_AHEAD
        state.losses, state.next_loss = self.losses.pending(), self.losses.next_count
        state.reported_losses = tuple(pending.number for pending in self.losses.reported())
        state.max_bytes = self.settings.max_bytes
        state.card_endurance_bytes = self.settings.card_endurance_bytes
        if now_ms is not None:
            self.totals.bytes_per_s = self.byte_rate.per_s(now_ms)
            self.totals.commits_per_s = self.commit_rate.per_s(now_ms)
        return state

    def _recover_lanes(self) -> None:
        for number in sorted(self._state.lanes):
            segments = self._state.lanes[number].segments
            for segment in segments:
                self.pool.claim(segment.file)
            lane, torn, used_below = recover_lane(self.disk, self._state, number, self.pool.pages)
            self.lanes[number] = lane
            if torn:
                self._report_torn_block(lane, torn)
            self.pass_over(lane, used_below)

    def _report_torn_block(self, lane: Lane, torn: list[Loss]) -> None:
        """Report it here and once: a later reader cannot distinguish what was never committed from what was lost."""
        segment = lane.segments[-1]
        if segment.count_unreported(lane.next_position, torn):
            segment.mark_reported(lane.next_position, torn)
            self._record_losses(lane, torn)
            self.totals.torn_tails += 1

    def pass_over(self, lane: Lane, position: int) -> None:
        """Leave the positions below unused, as damaged: they may have been used once. Durable with the next save."""
        if position <= lane.next_position:
            return
        loss = damage(lane.number, lane.next_position, position)
        lane.next_position = position
        if lane.segments:
            lane.segments[-1].left_out += loss.count
        self.totals.damaged_readings += self._record_losses(lane, [loss])
        self.is_vital_unsaved = True

    def _sync_names(self) -> None:
        """Make durable what a killed process created or removed."""
        with contextlib.suppress(OSError):
            self.disk.sync_names()

    def settle(self) -> None:
        """Put on the medium what an earlier process may have left in the page cache only. Raises: StorageError.

        A sync is not enough: if an earlier one failed, the kernel reported it once and marked the pages as clean. So
        they are written once more: of each lane the last block, since nothing is ever written behind one that was
        not synced or settled. Until then, cursors stop before it, and nothing is committed.
        """
        try:
            self._files.settle()
            for lane in self.lanes.values():
                if lane.doubtful is not None:
                    self._write_again(file_name(lane.segments[-1].file), lane.doubtful)
                    lane.doubtful = None
        except OSError as error:
            raise StorageError(f"cannot sync what the last run wrote: {error.strerror or error}") from error

    def _write_again(self, name: str, block: Head) -> None:
        """Write page by page, so that a page that cannot be read now is not overwritten."""
        for page in range(block.page, block.end_page):
            if data := read_page(self.disk, name, page):
                self.disk.write(name, page * PAGE_BYTES, data)
        self.disk.sync(name)

    def reported_losses(self) -> tuple[PendingLoss, ...]:
        """The losses that are marked as reported on the medium. With a failing disk, no new ones."""
        more = self.losses.report_more()
        if more:
            self.is_vital_unsaved = True
            try:
                self.save(None)
            except StorageError:
                self.losses.unreport(more)
        return self.losses.reported()

    def finish_opening(self, now_ms: int) -> None:
        """Make durable what recovery found. A full disk puts this off until there is something to commit."""
        with contextlib.suppress(OSError, StorageError):
            self.settle()
            if self.is_vital_unsaved:
                self.save(now_ms)
            else:
                self.pool.settle()
