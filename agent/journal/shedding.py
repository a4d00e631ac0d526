"""Make room when there is none: the least important lane first, its oldest records first, every loss recorded.

A lane that is thinned loses every second record of each chain: two neighbouring segments are rewritten into one, the
least thinned and oldest pair first, so that the whole lane fades evenly before any part of it is thinned again. All
other lanes lose their oldest segment. What every cursor has passed is no loss.
"""

from collections import Counter
from collections.abc import Iterator

from agent.journal.gaps import Cause
from agent.journal.lane import Chunk, Lane
from agent.journal.records import LossTally, Record
from agent.journal.rewriting import Rewriter
from agent.journal.state import Segment
from agent.journal.store import Store


def make_room(store: Store, for_lane: int) -> bool:
    """Give up a file's worth of records no more important than `for_lane`. False if there are none. Raises: OSError."""
    expendable = [lane for lane in store.lanes.values() if lane.segments and lane.number >= for_lane]
    if not expendable:
        return False
    lane = max(expendable, key=lambda candidate: candidate.number)
    if lane.number not in store.settings.thinned_lanes or not thin(store, lane):
        drop_oldest(store, lane)
    return True


def drop_oldest(store: Store, lane: Lane) -> None:
    tally = store.new_tally(lane)
    for chunk in _unreleased(store, lane, 0, 0):
        store.report_damage(lane, chunk)
        tally.add_records(chunk.records)
    store.give_up(lane, tally.losses(), Cause.SHED)
    store.remove_segment(lane, 0)


def thin(store: Store, lane: Lane) -> bool:
    """Two segments become one that keeps every second record. False if there are no two, or no file to write it to."""
    if len(lane.segments) < 2 or (file := store.pool.take_reserve()) is None:
        return False
    first = _least_thinned_pair(lane)
    try:
        segment, lost = _rewrite_thinner(store, lane, file, first)
    except OSError:
        store.pool.put_back_reserve(file)
        raise
    if segment is None:
        store.pool.put_back_reserve(file)
        return False
    store.give_up(lane, lost.losses(), Cause.THINNED)
    store.replace_segments(lane, first, first + 1, segment)
    return True


def _rewrite_thinner(store: Store, lane: Lane, file: int, first: int) -> tuple[Segment | None, LossTally]:
    rewriter = Rewriter(store, lane, first, file)
    lost = store.new_tally(lane)
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
