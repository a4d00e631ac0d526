"""Look at a journal from outside, cold or live, without touching it.

A live journal moves while it is looked at: its writer may be in the middle of a block, or use a file anew. So damage
counts only if a second look, taken later, finds the same positions live and still damaged.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.journal.disk import DirectoryDisk, Disk
from agent.journal.figures import JournalStats, cursor_stats, lane_stats
from agent.journal.lane import Chunk, Lane, LaneReader
from agent.journal.layout import PAGE_BYTES
from agent.journal.pool import file_number, segment_pages
from agent.journal.records import Loss, Record
from agent.journal.recovery import rebuild_state, recover_lane
from agent.journal.state import STATE_NAMES, State, StateFiles, load_copy

Progress = Callable[[int, int], None]  # so much is done, of so much


@dataclass(frozen=True, slots=True)
class View:
    """A journal as one look found it."""

    disk: Disk
    pages: dict[int, int]  # of each segment file
    state: State
    lanes: dict[int, Lane]
    torn: list[Loss]  # in the last blocks; most likely never committed

    def reader(self, lane: Lane) -> LaneReader:
        return LaneReader(self.disk, self.state.journal_id, lane, self.pages)

    def chunks(self, lane: Lane, position: int = 0) -> Iterator[Chunk]:
        """All of the lane from `position` on."""
        return self.reader(lane).chunks(max(position, lane.first_position), lane.next_position)

    def still_lacks(self, loss: Loss) -> bool:
        """Whether what another look missed is live and cannot be read now either."""
        lane = self.lanes.get(loss.lane)
        if lane is None or not lane.first_position <= loss.first_position < lane.next_position:
            return False
        return bool(self.reader(lane).read(loss.first_position).losses)

    def knows_of(self, loss: Loss) -> bool:
        """Whether the journal has met this loss before, or opening will pass it over as torn."""
        chunk = self.reader(self.lanes[loss.lane]).read(loss.first_position)
        is_told = chunk.segment is not None and not chunk.segment.untold(chunk.end_position, chunk.losses)
        return is_told or any(
            (torn.lane, torn.first_position) == (loss.lane, loss.first_position) for torn in self.torn
        )

    def records(self, lane: Lane, position: int = 0) -> Iterator[Record]:
        for chunk in self.chunks(lane, position):
            yield from chunk.records


def check_is_journal(directory: Path) -> None:
    """Looking at a journal never makes one. Raises: FileNotFoundError if this is none, OSError."""
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    if not any(name in STATE_NAMES or file_number(name) is not None for name in names):
        problem = "there is no journal; the agent makes it when it first runs"
        raise FileNotFoundError(errno.ENOENT, problem, str(directory))


@contextmanager
def opened_to_look(directory: Path) -> Iterator[DirectoryDisk]:
    """Read only, without a lock, also beside the agent. Raises: FileNotFoundError if this is no journal, OSError."""
    check_is_journal(directory)
    with closing(DirectoryDisk(directory, read_only=True)) as disk:
        yield disk


def look(disk: Disk) -> View:
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
    files = {segment.file for lane in view.lanes.values() for segment in lane.segments}
    live_bytes = PAGE_BYTES * sum(view.pages.get(file, 0) for file in files)
    state_bytes = sum(view.disk.size(name) for name in view.disk.names() if name in STATE_NAMES)
    return JournalStats(
        lanes={number: lane_stats(lane) for number, lane in view.lanes.items()},
        cursors={name: cursor_stats(readers, places, now_ms) for name, places in state.cursors.items()},
        pending_gaps=len(state.gaps),
        records=totals.records,
        commits=totals.commits,
        payload_bytes=totals.payload_bytes,
        written_bytes=totals.written_bytes,
        shed_records=totals.shed_records,
        damaged_records=totals.damaged_records,
        torn_tails=totals.torn_tails,
        lost_states=totals.lost_states,
        bytes_on_disk=PAGE_BYTES * sum(view.pages.values()) + state_bytes,
        max_bytes=state.max_bytes,
        room_bytes=max(0, state.max_bytes - state_bytes - live_bytes),
        commits_per_s=totals.commits_per_s,
        written_bytes_per_s=totals.bytes_per_s,
        card_endurance_bytes=state.card_endurance_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check of everything found."""

    records: int  # whole ones
    damage: tuple[Loss, ...]  # news: the journal has not met it yet
    known: tuple[Loss, ...]  # met before and told, or torn off by power loss before it was committed
    bad_state_copies: tuple[str, ...]  # one of the two may be torn by power loss, which costs nothing

    @property
    def is_sound(self) -> bool:
        return not self.damage and len(self.bad_state_copies) < len(STATE_NAMES)


def verify(disk: Disk, progress: Progress | None = None) -> Verdict:
    """Read and check everything. Raises: OSError if the directory cannot be read."""
    view, bad_copies = look(disk), _bad_state_copies(disk)
    total = sum(lane.next_position - lane.first_position for lane in view.lanes.values())
    records, done, suspects = 0, 0, []
    for lane in view.lanes.values():
        position = lane.first_position
        for chunk in view.chunks(lane):
            records += len(chunk.records)
            suspects += chunk.losses
            done, position = done + chunk.end_position - position, chunk.end_position
            if progress is not None:
                progress(done, total)
    later = look(disk)
    lost = [loss for loss in suspects if later.still_lacks(loss)]
    return Verdict(
        records=records,
        damage=tuple(loss for loss in lost if not later.knows_of(loss)),
        known=tuple(loss for loss in lost if later.knows_of(loss)),
        bad_state_copies=tuple(sorted(bad_copies & _bad_state_copies(disk))),
    )


def _bad_state_copies(disk: Disk) -> set[str]:
    return {name for name in disk.names() if name in STATE_NAMES and load_copy(disk, name) is None}
