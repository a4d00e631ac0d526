"""Verifies a whole journal, and repairs it: records all damage as lost, and rewrites the damaged segments.

The journal works without this. Repair finds damage before a cursor does, and `verify` finds none afterwards.
"""

from collections import Counter
from dataclasses import dataclass

from agent.errors import StorageError
from agent.journal.disk import Disk
from agent.journal.inspection import Progress, View, inspect_journal
from agent.journal.lane import Lane
from agent.journal.layout import PAGE_BYTES
from agent.journal.records import LossTally
from agent.journal.settings import JournalSettings
from agent.journal.shedding import Rewriter
from agent.journal.state import STATE_NAMES, load_copy
from agent.journal.store import Store
from protocol.losses import Cause, Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a check of all records."""

    records: int  # whole ones
    readings: int  # in these
    damage: tuple[Loss, ...]  # not known to the journal yet
    known: tuple[Loss, ...]  # reported before, or torn by power loss before it was committed
    bad_state_copies: tuple[str, ...]  # one of the two may be torn by power loss, which costs nothing

    @property
    def is_sound(self) -> bool:
        return not self.damage and len(self.bad_state_copies) < len(STATE_NAMES)


def verify(disk: Disk, progress: Progress | None = None) -> Verdict:
    """Read and check everything. Raises: OSError if the directory cannot be read."""
    view, bad_copies = inspect_journal(disk), _bad_state_copies(disk)
    total = sum(lane.next_position - lane.first_position for lane in view.lanes.values())
    records, readings, done, suspects = 0, 0, 0, []
    for lane in view.lanes.values():
        position = lane.first_position
        for chunk in view.chunks(lane):
            records += len(chunk.records)
            suspects += _by_chain(chunk.losses)
            readings += sum([record.readings for record in chunk.records])
            done, position = done + chunk.end_position - position, chunk.end_position
            if progress is not None:
                progress(done, total)
    later = inspect_journal(disk)
    lost = [loss for loss in suspects if later.still_lacks(loss)]
    return Verdict(
        records=records,
        readings=readings,
        damage=tuple(loss for loss in lost if not later.knows_of(loss)),
        known=tuple(loss for loss in lost if later.knows_of(loss)),
        bad_state_copies=tuple(sorted(bad_copies & _bad_state_copies(disk))),
    )


def _by_chain(losses: list[Loss]) -> list[Loss]:
    tally = LossTally(Cause.DAMAGED)
    for loss in losses:
        tally.add(loss)
    return tally.losses()


def _bad_state_copies(disk: Disk) -> set[str]:
    return {name for name in disk.names() if name in STATE_NAMES and load_copy(disk, name) is None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    rewritten_segments: int
    lost_readings: int  # now reported as lost


def _settings_for(view: View) -> JournalSettings:
    """Settings under which nothing of this journal is shed and none of its cursors is dropped."""
    sizes = Counter(view.pages.values()).most_common(1)
    defaults = JournalSettings()
    segment_bytes = max(sizes[0][0], 4) * PAGE_BYTES if sizes else defaults.segment_bytes
    live_bytes = PAGE_BYTES * sum(view.pages.values())
    return JournalSettings(
        segment_bytes=segment_bytes,
        max_bytes=max(view.state.max_bytes, live_bytes + 8 * segment_bytes + defaults.state_bytes),
        cursors=tuple(view.state.cursors) or defaults.cursors,
        card_endurance_bytes=view.state.card_endurance_bytes,
    )


def repair(disk: Disk, *, new_journal_id: int, now_ms: int, progress: Progress | None = None) -> Repaired:
    """Raises: OSError, or StorageError if the disk does not take what must be written."""
    view = inspect_journal(disk)
    store = Store(disk, _settings_for(view), new_journal_id)
    store.finish_opening(now_ms)
    places = [(lane, index) for lane in store.lanes.values() for index in range(len(lane.segments))]
    rewritten = 0
    for done, (lane, index) in enumerate(places):
        if _is_damaged(store, lane, index):
            rewritten += _rewrite(store, lane, index, now_ms)
        if progress is not None:
            progress(done + 1, len(places))
    store.is_vital_unsaved = True  # so that both copies of the state are good again
    store.save(now_ms)
    return Repaired(
        rewritten_segments=rewritten, lost_readings=store.totals.damaged_readings - view.state.totals.damaged_readings
    )


def _is_damaged(store: Store, lane: Lane, index: int) -> bool:
    damaged = False
    for chunk in store.reader(lane).chunks(lane.segments[index].first_position, lane.end_of(index)):
        store.report_damage(lane, chunk)
        damaged = damaged or bool(chunk.losses)
    return damaged


def _rewrite(store: Store, lane: Lane, index: int, now_ms: int) -> bool:
    """False if nothing in the segment is whole, or it does not fit: it stays as it is."""
    old = lane.segments[index]
    store.save(now_ms)  # so that the file taken next is free on the medium too
    file = store.pool.take()
    if file is None:
        raise StorageError("no space to rewrite a damaged segment; free some disk space and repair again")
    rewriter = Rewriter(store, lane, index, file, now_ms)
    rejected = []
    for chunk in store.reader(lane).chunks(old.first_position, lane.end_of(index)):
        store.report_damage(lane, chunk)  # it may not be what the first reading found
        rejected += rewriter.add(chunk.records)
    rejected += rewriter.finish(lane.end_of(index))
    segment = rewriter.segment(old.thinned)
    if segment is None or rejected:
        store.pool.give_back(file)
        return False
    store.replace_segments(lane, index, index, segment)
    store.save(now_ms)
    return True
