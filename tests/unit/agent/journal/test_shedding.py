import random

import pytest

from agent.journal import Journal
from agent.journal.layout import PAGE_BYTES
from agent.journal.repair import repair, verify
from agent.journal.segments import file_name
from agent.journal.state import STATE_NAMES
from protocol.losses import Cause
from tests.support.journal_helpers import (
    NOW_MS,
    commit,
    entry,
    fill_segments,
    open_journal,
    read_all,
    reported,
    sequences,
    settings,
)
from tests.support.simulated_disk import SimulatedDisk


def test_the_oldest_of_the_least_important_lane_goes_first() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=6))
    fill_segments(journal, 0, 2)
    fill_segments(journal, 3, 2)
    fill_segments(journal, 7, 2)
    fill_segments(journal, 0, 1, start=8)
    assert sequences(read_all(journal, lane=7)) == [4, 5, 6, 7]
    assert len(read_all(journal, lane=3)) == 8
    [gap] = journal.pending_losses()
    assert (gap.loss.cause, gap.loss.lane, gap.loss.chain, gap.loss.count) == (Cause.SHED, 7, "boiler", 4)
    assert (gap.loss.first_position, gap.loss.last_position) == (0, 3)
    assert (gap.loss.first, gap.loss.last) == ((NOW_MS, 0), (NOW_MS + 3, 3))
    assert gap.missed_by == ("publisher",)


def test_the_important_never_makes_room_for_the_unimportant() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4))
    fill_segments(journal, 0, 4)
    commit(journal, 7, entry(1), entry(2))
    assert len(read_all(journal, lane=0)) == 16
    assert read_all(journal, lane=7) == []
    [gap] = journal.pending_losses()
    assert (gap.loss.cause, gap.loss.lane, gap.loss.count) == (Cause.JOURNAL_FULL, 7, 2)


def test_positions_of_what_was_never_stored_are_not_used_again() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    fill_segments(journal, 0, 4)
    commit(journal, 7, entry(1), entry(2))
    assert open_journal(disk.after_kill(), settings(segments=4)).append(7, entry(3)) == 2


def test_a_gap_is_durable_before_its_records_are_gone_and_until_it_is_acknowledged() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    fill_segments(journal, 0, 5)
    [gap] = journal.pending_losses()
    [again] = open_journal(disk.after_kill(), settings(segments=4)).pending_losses()
    assert again == gap
    journal.acknowledge_loss(gap.number)
    journal.close(NOW_MS)
    assert open_journal(disk, settings(segments=4)).pending_losses() == ()


@pytest.mark.parametrize("name", STATE_NAMES)
def test_no_single_damaged_byte_makes_a_gap_forgotten(name: str) -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    fill_segments(journal, 0, 5)
    disk.files[name].content[40] ^= 1
    reopened = open_journal(disk, settings(segments=4))
    assert reopened.pending_losses() == journal.pending_losses()
    assert sequences(read_all(reopened)) == list(range(4, 20))


def test_what_every_cursor_has_passed_is_no_loss() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4))
    fill_segments(journal, 0, 4)
    journal.cursor("publisher").acknowledge(0, 1)
    commit(journal, 0, entry(16, 3000))
    [gap] = journal.pending_losses()
    assert (gap.loss.first_position, gap.loss.last_position, gap.loss.count) == (2, 3, 2)


def test_a_thinned_lane_keeps_every_second_record_of_each_chain() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=5, thinned_lanes=frozenset({4}), compression="none"))
    for number in range(16):
        chain = "rare" if number % 8 == 3 else "frequent"
        commit(journal, 4, entry(number, 1800, chain))
    commit(journal, 4, entry(16))
    assert sequences(read_all(journal)) == [0, 2, 3, 5, *range(7, 17)]
    gaps = {gap.loss.chain: gap for gap in journal.pending_losses()}
    assert {gap.loss.cause for gap in gaps.values()} == {Cause.THINNED}
    assert gaps["frequent"].loss.count == 3


def test_what_does_not_fit_the_thinner_segment_is_reported_as_well() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=5, thinned_lanes=frozenset({4}), compression="none"))
    sizes = [3000 if number % 2 == 0 else 10 for number in range(24)]
    for number, size in enumerate(sizes):
        commit(journal, 4, entry(number, size, chain=f"chain {number % 3}"))
    kept = len(read_all(journal))
    assert kept + sum(gap.loss.count for gap in journal.pending_losses()) == len(sizes)
    assert journal.stats(NOW_MS).damaged_readings == 0


def test_a_lane_is_thinned_evenly_before_any_part_of_it_is_thinned_again() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=7, thinned_lanes=frozenset({4}), compression="none"))
    total = fill_segments(journal, 4, 8)
    kept = sequences(read_all(journal))
    thinned = [number for number in range(16) if number in kept]
    assert thinned == list(range(0, 16, 2))
    assert kept[len(thinned) :] == list(range(16, total))
    reported = sum(gap.loss.count for gap in journal.pending_losses())
    assert len(kept) + reported == total


def test_thinning_survives_reopening_with_positions_unchanged() -> None:
    disk = SimulatedDisk()
    using = settings(segments=5, thinned_lanes=frozenset({4}))
    journal = open_journal(disk, using)
    fill_segments(journal, 4, 7)
    before = read_all(journal)
    assert [record.position for record in before] == sequences(before)
    reopened = open_journal(disk.after_kill(), using)
    assert read_all(reopened) == before
    assert reopened.stats(NOW_MS).damaged_readings == 0


def test_a_gap_that_was_given_out_is_on_the_medium_before_and_is_never_joined_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.journal.losses.MAX_UNREPORTED_LOSSES", 1)
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    end = fill_segments(journal, 4, 5)
    given = {gap.number: gap.loss.count for gap in journal.pending_losses()}
    disk = disk.after_power_loss(random.Random(1))
    journal = open_journal(disk, settings(segments=4))
    fill_segments(journal, 4, 6, end)
    given.update({gap.number: gap.loss.count for gap in journal.pending_losses()})
    assert sum(given.values()) == journal.stats(NOW_MS).shed_readings


# Thinned messages with several readings


READINGS = (5, 7, 11, 13, 17, 19, 23, 29)  # of the entries in turn, so that no two sums are alike


def _thinned(disk: SimulatedDisk) -> Journal:
    """Eight messages of a page each, in two segments, of which four are left in a segment of one page each."""
    using = settings(segments=4, thinned_lanes=frozenset({4}), compression="none")
    journal = open_journal(disk, using)
    fill_segments(journal, 0, 1)
    for number, readings in enumerate(READINGS):
        commit(journal, 4, entry(number, 3800, readings=readings))
    commit(journal, 0, entry(4, 3000))
    return journal


def test_thinning_drops_every_second_message_and_counts_its_readings() -> None:
    disk = SimulatedDisk()
    journal = _thinned(disk)
    records = read_all(journal, lane=4)
    assert [(record.sequence, record.readings) for record in records] == [(0, 5), (2, 11), (4, 17), (6, 23)]
    assert [record.position for record in records] == [0, 12, 36, 72]
    assert reported(journal) == [(5, sum(READINGS) - 1, 7 + 13 + 19 + 29, Cause.THINNED)]
    assert journal.append(4, entry(9)) == sum(READINGS)
    assert verify(disk).is_sound


@pytest.mark.parametrize(("page", "position", "end"), [(0, 0, 12), (1, 12, 36), (2, 36, 72), (3, 72, sum(READINGS))])
def test_a_thinned_block_that_is_gone_costs_only_what_was_left_in_it(page: int, position: int, end: int) -> None:
    disk = SimulatedDisk()
    journal = _thinned(disk)
    [segment] = journal._store.lanes[4].segments
    disk.files[file_name(segment.file)].content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
    for _ in range(2):
        assert len(read_all(journal, lane=4)) == 3
        journal.cursor("publisher").rewind()
    assert reported(journal)[1:] == [(position, end - 1, READINGS[2 * page], Cause.DAMAGED)]
    journal.close(NOW_MS)
    repair(disk, new_journal_id=1, now_ms=NOW_MS)
    assert verify(disk).is_sound
    journal = open_journal(disk)
    assert len(read_all(journal, lane=4)) == 3
    assert len(reported(journal)) == 2, "it is not counted again"
