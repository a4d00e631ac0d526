"""What all parts of an open journal share: lanes, files, cursor places, gaps, totals, and how they become durable."""

import contextlib
from collections.abc import Iterable

import zstandard

from agent.errors import StorageError
from agent.journal.disk import Disk
from agent.journal.figures import RateMeter
from agent.journal.gaps import Cause, GapLedger
from agent.journal.lane import Chunk, Lane, LaneReader
from agent.journal.layout import Compress
from agent.journal.pool import SegmentPool, file_name
from agent.journal.records import Loss, LossTally, unknown_loss
from agent.journal.recovery import rebuild_state, recover_lane
from agent.journal.settings import JournalSettings
from agent.journal.state import STATE_NAMES, LaneState, Segment, State, StateFiles

MAX_TOLD_CHUNKS = 16  # of one segment, whose damage is remembered as told

# Level 1 with a hash table that fits the first cache and long matches only: what repeats in signed messages is long.
# Measured on them: a seventh less time than level 1 alone, and no larger.
ZSTD_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, hash_log=12, min_match=7)


class Store:
    """Opens whatever the disk holds. A change of the set of segments is on the medium before anything relies on it."""

    def __init__(self, disk: Disk, settings: JournalSettings, new_journal_id: int) -> None:
        self.disk = disk
        self.settings = settings
        self.pool = SegmentPool(
            disk,
            segment_bytes=settings.segment_bytes,
            max_segments=settings.max_segments,
            spare_segments=settings.spare_segments,
            keep_reserve=bool(settings.thinned_lanes),
        )
        self._compressor = zstandard.ZstdCompressor(compression_params=ZSTD_PARAMETERS)
        self._files = StateFiles(disk, settings.state_bytes)
        self._make_durable(STATE_NAMES)
        loaded = self._files.load()
        self._state = loaded or rebuild_state(disk, self.pool.pages, new_journal_id)
        self.lanes: dict[int, Lane] = {}
        self.gaps = GapLedger(self._state.gaps, self._state.next_gap)
        self.totals = self._state.totals
        self.places = {name: dict(self._state.cursors.get(name, {})) for name in settings.cursors}
        self.byte_rate = RateMeter(self.totals.bytes_per_s)
        self.commit_rate = RateMeter(self.totals.commits_per_s)
        self.kept: dict[str, dict[int, int]] = {}  # cursor → lane → the first position of which it has no copy
        self.is_vital_unsaved = loaded is None  # segments or gaps changed since the last save
        self.is_unsaved = False  # a cursor moved or a gap was acknowledged since the last save
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

    def new_segment_id(self) -> int:
        number = self._state.next_segment_id
        self._state.next_segment_id += 1
        return number

    def add_segment(self, lane: Lane, file: int, now_ms: int) -> None:
        """Begin a segment; when this returns, the state on the medium names it. Raises: StorageError."""
        segment = Segment(file, self.new_segment_id(), lane.next_position)
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
            lane.write_page = None
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
        """Let go of the segments that every cursor has passed, all but the one being written."""
        released = self.released_position(lane)
        kept = 0 if lane.write_page is None else 1
        while len(lane.segments) > kept and lane.end_of(0) <= released:
            self.remove_segment(lane, 0)

    def behind(self, lane: Lane, end_position: int) -> tuple[str, ...]:
        """The cursors that have not passed `end_position`."""
        return tuple(name for name, places in self.places.items() if places.get(lane.number, 0) < end_position)

    def kept_below(self, lane: Lane, name: str) -> int:
        """Below this the cursor has a copy of its own of everything."""
        return self.kept.get(name, {}).get(lane.number, 0)

    def new_tally(self, lane: Lane) -> LossTally:
        return LossTally(max((self.kept_below(lane, name) for name in self.kept), default=0))

    # Counts and losses

    def count_commit(self, records: int, payload_bytes: int) -> None:
        self.totals.commits += 1
        self.totals.records += records
        self.totals.payload_bytes += payload_bytes
        self.commit_rate.add(1)

    def give_up(self, lane: Lane, losses: list[Loss], cause: Cause) -> None:
        """Make gaps of what is dropped for want of room; durable with the next save."""
        self._record_losses(lane, losses, cause)
        self.totals.shed_records += sum(loss.count for loss in losses)

    def report_damage(self, lane: Lane, chunk: Chunk) -> None:
        """Make gaps of the damage a reader met, once, whoever meets it again; and of what has come to it since.

        Where a segment is damaged in more places than are remembered, all of it up to here is told as lost at once.
        """
        segment = chunk.segment
        if segment is None or not (untold := segment.untold(chunk.end_position, chunk.losses)):
            return
        losses = chunk.losses
        if len(segment.told) < MAX_TOLD_CHUNKS:
            segment.tell(chunk.end_position, losses)
        else:
            losses = [unknown_loss(lane.number, segment.first_position, chunk.end_position)]
            segment.tell_all_below(chunk.end_position)
        self._record_losses(lane, losses, Cause.DAMAGED)
        self.totals.damaged_records += untold

    def _record_losses(self, lane: Lane, losses: list[Loss], cause: Cause) -> None:
        """What every cursor has passed is no loss."""
        for loss in losses:
            if missed_by := self.behind(lane, loss.last_position + 1):
                kept_by = tuple(name for name in missed_by if self.kept_below(lane, name) > loss.last_position)
                self.gaps.record([loss], cause, missed_by, kept_by)
                self.is_vital_unsaved = True

    # Durability

    def save(self, now_ms: int) -> None:
        """Put the state on the medium: both copies if segments or gaps changed. Raises: StorageError."""
        try:
            written_bytes = self._files.save(self._snapshot(now_ms), copies=2 if self.is_vital_unsaved else 1)
            self.is_vital_unsaved = self.is_unsaved = False
            self.totals.written_bytes += written_bytes
            self.pool.settle()
        except OSError as error:
            raise StorageError(f"journal state cannot be saved: {error.strerror or error}") from error

    def _snapshot(self, now_ms: int) -> State:
        state = self._state
        state.lanes = {number: LaneState(lane.next_position, lane.segments) for number, lane in self.lanes.items()}
        state.cursors = self.places
        state.gaps, state.next_gap = self.gaps.pending(), self.gaps.next_number
        state.max_bytes = self.settings.max_bytes
        state.card_endurance_bytes = self.settings.card_endurance_bytes
        self.totals.bytes_per_s = self.byte_rate.per_s(now_ms)
        self.totals.commits_per_s = self.commit_rate.per_s(now_ms)
        return state

    def _recover_lanes(self) -> None:
        for number in sorted(self._state.lanes):
            segments = self._state.lanes[number].segments
            for segment in segments:
                self.pool.claim(segment.file)
            self._make_durable(file_name(segment.file) for segment in segments[-1:])
            lane, damage, torn = recover_lane(self.disk, self._state, number, self.pool.pages)
            self.lanes[number] = lane
            self.totals.torn_tails += bool(torn)
            if torn:
                self._tell_of_torn_block(lane, damage, torn)

    def _tell_of_torn_block(self, lane: Lane, damage: list[Loss], torn: list[Loss]) -> None:
        """Here and once: who reads the block later cannot tell what was never committed from what was lost."""
        segment, lacking = lane.segments[-1], [*damage, *torn]
        if segment.untold(lane.next_position, lacking):
            segment.tell(lane.next_position, lacking)
            self._record_losses(lane, damage, Cause.DAMAGED)
            self.totals.damaged_records += sum(loss.count for loss in damage)

    def _make_durable(self, names: Iterable[str]) -> None:
        """What a killed process wrote may be in the page cache only: put it on the medium before acting on it."""
        with contextlib.suppress(OSError):
            self.disk.sync_names()
        for name in names:
            with contextlib.suppress(OSError):  # not there, or not to be trusted: reading it will show
                self.disk.sync(name)

    def finish_opening(self, now_ms: int) -> None:
        """Make durable what recovery found. A full disk puts this off until there is something to commit."""
        with contextlib.suppress(OSError, StorageError):
            if self.is_vital_unsaved:
                self.save(now_ms)
            else:
                self.pool.settle()
