"""Reads the content of the medium when a journal is opened. No content can make this fail.

With a valid state only the last segment of each lane is read: whatever was committed since the state was saved is
there. A torn tail is skipped: its whole records are used, the rest was never committed. Its positions stay unused, so
that no position ever means two readings, and are recorded as a loss of their own cause. Without a valid state every
file is read, and every segment found counts as live: messages are then sent again, but none is skipped.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from agent.journal.disk import Disk
from agent.journal.lane import Lane
from agent.journal.layout import MAX_BLOCK_READINGS, PAGE_BYTES, Head, decode_block
from agent.journal.segments import ANYONE, Found, Owner, find_block
from agent.journal.state import SEGMENT_IDS_AHEAD, LaneState, Segment, State, Totals
from protocol.losses import Cause, Loss


class Tail(NamedTuple):
    """The end of a lane's last segment."""

    write_page: int
    end_position: int
    last: Head | None  # of its last block
    has_unreadable: bool  # pages in it, so that what it lacks is damage
    unreadable_pages: int  # behind it: there may be more
    losses: list[Loss]  # in the last block, which may never have been committed


class Survey(NamedTuple):
    """The content of a segment file, by its blocks alone."""

    file: int
    head: Head  # of its first block
    end_position: int
    left_out: int  # of its positions
    is_damaged: bool  # before its last block, which may be torn in a sound segment

    @property
    def preference(self) -> tuple[bool, bool, int]:
        """Lower first. A rewritten segment holds less, the later the less; else a later one repeats a failed commit."""
        rewritten = bool(self.head.rewritten)
        return self.is_damaged, rewritten, self.head.segment_id if rewritten else -self.head.segment_id


def rebuild_state(disk: Disk, pages: Mapping[int, int], new_journal_id: int) -> State:
    """A state from the segment files alone (`pages` of each); for a new journal, an empty one."""
    surveys = [found for number in pages if (found := _survey(disk, number, pages[number])) is not None]
    if not surveys:
        return State(journal_id=new_journal_id)
    [(journal_id, _)] = Counter(each.head.journal_id for each in surveys).most_common(1)
    ours = [each for each in surveys if each.head.journal_id == journal_id]
    lanes = {lane: LaneState(0, _live_segments(ours, lane)) for lane in {each.head.lane for each in ours}}
    next_segment_id = max(each.head.segment_id for each in ours) + 1 + SEGMENT_IDS_AHEAD
    next_loss = 1 + (new_journal_id >> 8)  # how far the count had come is lost with the state: on from anywhere
    return State(journal_id, next_segment_id, lanes, next_loss=next_loss, totals=Totals(lost_states=1))


def _survey(disk: Disk, file: int, pages: int) -> Survey | None:
    found = find_block(disk, file, ANYONE, 0, pages)
    if found is None:
        return None
    head, owner = found.head, Owner(found.head.journal_id, found.head.segment_id)
    position, left_out, is_damaged, is_torn = head.first_position, 0, False, False
    while found is not None:
        is_damaged |= is_torn or found.head.first_position != position
        is_torn = bool(decode_block(found.head, found.block).losses)
        position, left_out = found.head.end_position, found.head.left_out_at_end
        found = find_block(disk, file, owner, found.head.end_page, pages)
    return Survey(file, head, position, left_out, is_damaged)


def _live_segments(surveys: list[Survey], lane: int) -> list[Segment]:
    """By position: the preferred segments, and others where they fill a gap."""
    chosen: dict[int, Survey] = {}
    for each in sorted(surveys, key=lambda survey: survey.preference):
        if each.head.lane == lane:
            _fill_gap(chosen, each)
    return [
        Segment(each.file, each.head.segment_id, position, left_out=each.left_out)
        for position, each in sorted(chosen.items())
    ]


def _fill_gap(chosen: dict[int, Survey], survey: Survey) -> None:
    """Add the segment from the first position on that no other covers, up to the next that does.

    A file can be named only once: if there is a second gap behind that, the segments in between are left out.
    """
    end = survey.end_position
    position = _reach(chosen, survey.head.first_position)
    if position >= end:
        return
    inside = sorted(start for start in chosen if position < start < end)
    if inside and _reach(chosen, inside[0]) < end:
        for start in inside:
            if chosen[start].end_position <= end:
                del chosen[start]
    chosen[position] = survey


def _reach(chosen: dict[int, Survey], position: int) -> int:
    """The first position at or after `position` that no chosen segment covers."""
    for start, each in sorted(chosen.items()):
        if start <= position:
            position = max(position, each.end_position)
    return position


class Recovered(NamedTuple):
    """A lane, and what its end lacks. Damage before that is found when it is read."""

    lane: Lane
    torn: list[Loss]  # in the last block, whose commit probably never ended
    used_below: int = 0  # the position up to which pages that cannot be read may hold records


def recover_lane(disk: Disk, state: State, number: int, pages: Mapping[int, int]) -> Recovered:
    """The lane as the medium has it."""
    known = state.lanes[number]
    committed = max([known.next_position, *(places.get(number, 0) for places in state.cursors.values())])
    lane = Lane(number, known.segments, committed)
    if not lane.segments:
        return Recovered(lane, [])
    last = lane.segments[-1]
    tail = _find_tail(disk, state.journal_id, last, pages.get(last.file, 0))
    lane.next_position = max(committed, tail.end_position)
    lane.write_page = None if tail.losses else tail.write_page  # nothing is ever written behind a torn block
    lane.doubtful = tail.last
    if tail.unreadable_pages:
        lane.write_page = None  # what cannot be read now may be readable again
    used_below = tail.end_position + tail.unreadable_pages * MAX_BLOCK_READINGS
    is_damage = tail.last is None or tail.has_unreadable or tail.last.first_position < committed
    torn = [] if is_damage else [replace(loss, cause=Cause.UNFINISHED) for loss in tail.losses]
    return Recovered(lane, torn, used_below)


def _find_tail(disk: Disk, journal_id: int, segment: Segment, pages: int) -> Tail:
    owner = Owner(journal_id, segment.id)
    page, position = 0, segment.first_position
    last: Found | None = None
    noting = _NotingReader(disk)
    while (found := find_block(noting, segment.file, owner, page, pages)) is not None:
        page, position, last = found.head.end_page, max(position, found.head.end_position), found
    behind = sum(number >= page for number in noting.unreadable_pages)
    if last is None:
        return Tail(page, position, None, False, behind, [])
    has_unreadable = any(last.head.page <= number < page for number in noting.unreadable_pages)
    return Tail(page, position, last.head, has_unreadable, behind, decode_block(*last).losses)


class _NotingReader:
    """Reads a file, and notes which pages cannot be read."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.unreadable_pages: set[int] = set()

    def read(self, name: str, offset: int, size: int) -> bytes:
        try:
            return self._disk.read(name, offset, size)
        except FileNotFoundError:
            raise
        except OSError:
            if size <= PAGE_BYTES:  # more is read again page by page
                self.unreadable_pages.add(offset // PAGE_BYTES)
            raise
