"""Read-only inspection of a journal, whether or not an agent is writing to it.

A live journal changes while it is read: its writer may be in the middle of a block, or reuse a file. So damage counts
only if a second inspection, made later, finds the same positions live and still damaged.

A `Follower` reads records as they are committed. It is no cursor: the journal does not know of it and does not wait for
it. It holds its block in each lane, so a call costs only what is new. Records that the journal released before they
were read are skipped.
"""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.journal.disk import DirectoryDisk, Disk
from agent.journal.lane import Chunk, Lane, LaneReader
from agent.journal.layout import HEAD_BYTES, MAX_TABLE_BYTES, PAGE_BYTES, decode_block, parse_head
from agent.journal.records import Record
from agent.journal.recovery import rebuild_state, recover_lane
from agent.journal.segments import Found, Owner, file_name, file_number, find_block, segment_pages
from agent.journal.state import STATE_NAMES, Segment, State, StateFiles
from agent.journal.stats import JournalStats, counts_of, cursor_stats, lane_stats
from protocol.losses import Loss

Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True)
class View:
    """A journal as one inspection found it."""

    disk: Disk
    pages: dict[int, int]  # of each segment file
    state: State
    lanes: dict[int, Lane]
    torn: list[Loss]  # in the last blocks; probably never committed

    def reader(self, lane: Lane) -> LaneReader:
        return LaneReader(self.disk, self.state.journal_id, lane, self.pages)

    def chunks(self, lane: Lane, position: int = 0) -> Iterator[Chunk]:
        """All of the lane from `position` on."""
        return self.reader(lane).chunks(max(position, lane.first_position), lane.next_position)

    def still_lacks(self, loss: Loss) -> bool:
        """Whether the positions of a loss found by an earlier inspection are live and still cannot be read."""
        lane = self.lanes.get(loss.lane)
        if lane is None or not lane.first_position <= loss.first_position < lane.next_position:
            return False
        return bool(self.reader(lane).read(loss.first_position).losses)

    def knows_of(self, loss: Loss) -> bool:
        """Whether the journal has met this loss before, or opening will pass it over as torn."""
        chunk = self.reader(self.lanes[loss.lane]).read(loss.first_position)
        is_reported = chunk.segment is not None and not chunk.segment.count_unreported(chunk.end_position, chunk.losses)
        return is_reported or any(
            (torn.lane, torn.first_position) == (loss.lane, loss.first_position) for torn in self.torn
        )

    def records(self, lane: Lane, position: int = 0) -> Iterator[Record]:
        for chunk in self.chunks(lane, position):
            yield from chunk.records


def check_is_journal(directory: Path) -> None:
    """Raises: FileNotFoundError if the directory holds no journal, OSError."""
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    if not any(name in STATE_NAMES or file_number(name) is not None for name in names):
        problem = "there is no journal; the agent creates it when it first runs"
        raise FileNotFoundError(errno.ENOENT, problem, str(directory))


@contextmanager
def open_read_only(directory: Path) -> Iterator[DirectoryDisk]:
    """Read only, without a lock, also beside the agent. Raises: FileNotFoundError if this is no journal, OSError."""
    check_is_journal(directory)
    with closing(DirectoryDisk(directory, read_only=True)) as disk:
        yield disk


def inspect_journal(disk: Disk) -> View:
    """Raises: OSError if the directory cannot be read."""
    pages = segment_pages(disk)
    state = StateFiles(disk, 0).load() or rebuild_state(disk, pages, new_journal_id=0)
    recovered = [recover_lane(disk, state, number, pages) for number in sorted(state.lanes)]
    lanes = {each.lane.number: each.lane for each in recovered}
    return View(disk, pages, state, lanes, [loss for each in recovered for loss in each.torn])


def stats_of(view: View, now_ms: int) -> JournalStats:
    """As the journal's own, but rates and totals are those of the last time its state was saved."""
    state, totals = view.state, view.state.totals
    readers = {number: view.reader(lane) for number, lane in view.lanes.items()}
    used_bytes = sum(lane.used_bytes(view.pages) for lane in view.lanes.values())
    unusable_bytes = max(1, len(view.lanes)) * max(view.pages.values(), default=0) * PAGE_BYTES
    state_bytes = sum(view.disk.size(name) for name in view.disk.names() if name in STATE_NAMES)
    return JournalStats(
        lanes={number: lane_stats(lane) for number, lane in view.lanes.items()},
        cursors={name: cursor_stats(readers, places, now_ms) for name, places in state.cursors.items()},
        pending_losses=len(state.losses),
        **counts_of(totals),
        bytes_on_disk=PAGE_BYTES * sum(view.pages.values()) + state_bytes,
        max_bytes=state.max_bytes,
        free_bytes=max(0, state.max_bytes - state_bytes - unusable_bytes - used_bytes),
        commits_per_s=totals.commits_per_s,
        written_bytes_per_s=totals.bytes_per_s,
        card_endurance_bytes=state.card_endurance_bytes,
    )


@dataclass(slots=True)
class _Place:
    """The position of a follower in a lane."""

    position: int = 0  # of the next record to give
    segment_id: int = 0
    page: int = 0  # of the next block in that segment


class Follower:
    """Begins `readings` before the end of each lane as `view` found it. A lane that comes later is read from its first.

    `new_records` needs a disk that was opened anew: files come and go under the same name.
    """

    def __init__(self, view: View, readings: int = 0) -> None:
        self._places = {number: _Place(lane.next_position - readings) for number, lane in view.lanes.items()}

    def new_records(self, disk: Disk) -> Iterator[Record]:
        """The records committed since the last call, lane by lane. Raises: OSError if the directory cannot be read."""
        state, pages = StateFiles(disk, 0).load() or inspect_journal(disk).state, segment_pages(disk)
        for number, lane in sorted(state.lanes.items()):
            place = self._places.setdefault(number, _Place())
            for segment, following in zip(lane.segments, [*lane.segments[1:], None], strict=True):
                if following is None or following.first_position > place.position:
                    reading = _SegmentReading(
                        disk, pages, Owner(state.journal_id, segment.id), segment, is_last=following is None
                    )
                    yield from reading.records(place)


@dataclass(frozen=True, slots=True)
class _SegmentReading:
    disk: Disk
    pages: Mapping[int, int]
    owner: Owner
    segment: Segment
    is_last: bool

    def records(self, place: _Place) -> Iterator[Record]:
        """From the place on, moving it."""
        if place.segment_id != self.segment.id:
            place.segment_id, place.page = self.segment.id, 0
        while (found := self._next_block(place.page)) is not None:
            first, place.position = place.position, max(place.position, found.head.end_position)
            place.page = found.head.end_page
            yield from (record for record in decode_block(*found).records if record.next_position > first)

    def _next_block(self, page: int) -> Found | None:
        """The next block that is complete: its checksums hold, or another block follows it."""
        if not self.is_last:
            return self._find(page)
        found = self._find(page) if self._has_head(page) else None
        if found is None or not decode_block(*found).losses:
            return found
        return self._find(page) if self._has_head(found.head.end_page) else None

    def _find(self, page: int) -> Found | None:
        return find_block(self.disk, self.segment.file, self.owner, page, self.pages.get(self.segment.file, 0))

    def _has_head(self, page: int) -> bool:
        """Whether a block begins here: this reads one page, where `find_block` would search the rest of the file."""
        try:
            window = self.disk.read(file_name(self.segment.file), page * PAGE_BYTES, HEAD_BYTES + MAX_TABLE_BYTES)
        except OSError:
            return False
        head = parse_head(window)
        return head is not None and head.page == page and self.owner.owns(head)
