"""Find out, on opening, what the medium holds. Nothing found there can make this fail.

With a valid state only the last segment of each lane is read: whatever was committed since the state was saved is
there. A torn tail is passed over: its whole records are kept, the rest was never committed. Without a valid state every
file is looked at, and every segment found counts as live: what was sent is then sent again, but nothing is skipped.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from agent.journal.disk import Disk
from agent.journal.lane import Lane
from agent.journal.layout import Head, decode_block
from agent.journal.records import Loss, unknown_loss
from agent.journal.segment import ANYONE, Owner, find_block
from agent.journal.state import LaneState, Segment, State, Totals


class Tail(NamedTuple):
    """The end of a lane's last segment."""

    write_page: int
    end_position: int
    losses: list[Loss]  # before the last block: these were committed
    last_losses: list[Loss]  # in the last block: these may never have been committed


def rebuild_state(disk: Disk, pages: Mapping[int, int], new_journal_id: int) -> State:
    """A state from the segment files alone (`pages` of each); for a new journal, an empty one."""
    heads = {number: head for number in pages if (head := _first_head(disk, number, pages[number])) is not None}
    if not heads:
        return State(journal_id=new_journal_id)
    [(journal_id, _)] = Counter(head.journal_id for head in heads.values()).most_common(1)
    ours = {number: head for number, head in heads.items() if head.journal_id == journal_id}
    lanes = {lane: LaneState(0, _live_segments(ours, lane)) for lane in {head.lane for head in ours.values()}}
    next_segment_id = max(head.segment_id for head in ours.values()) + 1
    return State(journal_id, next_segment_id, lanes, totals=Totals(lost_states=1))


def _first_head(disk: Disk, number: int, pages: int) -> Head | None:
    found = find_block(disk, number, ANYONE, 0, pages)
    return None if found is None else found.head


def _live_segments(heads: dict[int, Head], lane: int) -> list[Segment]:
    """By position. Of two that start at the same one, a rewritten one holds less, an older one was never committed."""
    chosen: dict[int, Segment] = {}
    in_lane = [(number, head) for number, head in heads.items() if head.lane == lane]
    for number, head in sorted(in_lane, key=lambda item: (not item[1].rewritten, item[1].segment_id)):
        chosen[head.first_position] = Segment(number, head.segment_id, head.first_position)
    return [chosen[position] for position in sorted(chosen)]


class Recovered(NamedTuple):
    lane: Lane
    damage: list[Loss]  # committed records lost in the last segment, not told before
    torn: list[Loss]  # records of the last block that are not whole; most likely they were never committed


def recover_lane(disk: Disk, state: State, number: int, pages: Mapping[int, int]) -> Recovered:
    """The lane as the medium has it."""
    known = state.lanes[number]
    committed = max([known.next_position, *(places.get(number, 0) for places in state.cursors.values())])
    lane = Lane(number, known.segments, committed)
    if not lane.segments:
        return Recovered(lane, [], [])
    last = lane.segments[-1]
    tail = _find_tail(disk, state.journal_id, last, pages.get(last.file, 0))
    lane.next_position = max(committed, tail.end_position)
    lane.write_page = None if tail.last_losses else tail.write_page  # nothing is ever written behind a torn block
    torn = [loss for loss in tail.last_losses if loss.last_position >= committed]
    losses = tail.losses + [loss for loss in tail.last_losses if loss.last_position < committed]
    if tail.end_position < committed:
        losses.append(unknown_loss(number, tail.end_position, committed))
    return Recovered(lane, [loss for loss in losses if loss.last_position >= last.reported], torn)


def _find_tail(disk: Disk, journal_id: int, segment: Segment, pages: int) -> Tail:
    owner = Owner(journal_id, segment.id)
    page, position = 0, segment.first_position
    earlier: list[Loss] = []
    last: list[Loss] = []
    while (found := find_block(disk, segment.file, owner, page, pages)) is not None:
        head = found.head
        earlier.extend(last)
        if head.first_position > position:
            earlier.append(unknown_loss(head.lane, position, head.first_position))
        last = decode_block(head, found.block).losses
        page, position = head.end_page, max(position, head.end_position)
    return Tail(page, position, earlier, last)
