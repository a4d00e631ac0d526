import errno
import random

import pytest

from agent.errors import StorageError
from agent.journal import Journal
from agent.journal.inspection import inspect_journal
from agent.journal.layout import MAX_BLOCK_READINGS, PAGE_BYTES
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


def _torn(disk: SimulatedDisk, name: str, page: int) -> SimulatedDisk:
    """The page's second half never reached the medium."""
    torn = disk.after_kill()
    torn.files[name].content[page * PAGE_BYTES + 2048 : (page + 1) * PAGE_BYTES] = bytes(2048)
    return torn


def test_a_torn_tail_is_passed_over_and_its_whole_records_are_kept() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(compression="none"))
    commit(journal, 0, entry(0))
    commit(journal, 0, entry(1, 100), entry(2, 3000))
    reopened = open_journal(_torn(disk, "0000.segment", 1), settings(compression="none"))
    assert sequences(read_all(reopened)) == [0, 1]
    assert reopened.stats(NOW_MS).torn_tails == 1
    assert reported(reopened) == [(2, 2, 1, Cause.UNFINISHED)]


def test_nothing_is_written_behind_a_torn_block_and_its_positions_stay_unused() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(compression="none"))
    commit(journal, 0, entry(0))
    commit(journal, 0, entry(1, 100), entry(2, 3000))
    torn = _torn(disk, "0000.segment", 1)
    reopened = open_journal(torn, settings(compression="none"))
    assert reopened.append(0, entry(3)) == 3
    reopened.commit(NOW_MS)
    again = open_journal(torn.after_kill(), settings(compression="none"))
    assert sequences(read_all(again)) == [0, 1, 3]
    assert reported(again) == [(2, 2, 1, Cause.UNFINISHED)], "once, however often it is found"
    assert again.stats(NOW_MS).torn_tails == 1


def test_what_a_saved_cursor_had_passed_is_damage_and_not_a_torn_tail() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(compression="none"))
    commit(journal, 0, entry(0))
    commit(journal, 0, entry(1, 100), entry(2, 3000))
    journal.close(NOW_MS)
    reopened = open_journal(_torn(disk, "0000.segment", 1), settings(compression="none"))
    assert [record.position for record in read_all(reopened)] == [0, 1]
    assert reported(reopened) == [(2, 2, 1, Cause.DAMAGED)]


def test_numbers_of_gaps_are_not_used_again_when_the_state_is_lost() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    fill_segments(journal, 0, 6)
    reported_numbers = {gap.number for gap in journal.pending_losses()}
    for name in ("state-0", "state-1"):
        disk.remove(name)
    reopened = open_journal(disk, settings(segments=4))
    fill_segments(reopened, 0, 6)
    assert reported_numbers
    assert reported_numbers.isdisjoint(gap.number for gap in reopened.pending_losses())


def test_without_a_state_the_segments_are_found_and_ordered_by_what_they_hold() -> None:
    disk = SimulatedDisk()
    using = settings(segments=5, thinned_lanes=frozenset({4}))
    journal = open_journal(disk, using)
    fill_segments(journal, 0, 1)
    fill_segments(journal, 4, 5)
    expected = read_all(journal)
    for name in ("state-0", "state-1"):
        disk.remove(name)
    records = read_all(open_journal(disk, using))
    positions = [(record.lane, record.position) for record in records]
    assert positions == sorted(positions)
    assert set(expected) <= set(records)


def test_without_a_state_no_position_is_used_again_that_any_file_still_shows() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    for number in range(9):
        commit(journal, 0, entry(number, 3000, readings=10))
        journal.cursor("publisher").acknowledge(0, 10 * number + 9)
    assert journal.stats(NOW_MS).lanes[0].first_position == 80, "the others are released"
    for name in ("state-0", "state-1"):
        disk.remove(name)
    assert open_journal(disk).append(0, entry(9)) == 90


def test_a_foreign_journals_file_is_not_taken_for_ours() -> None:
    ours, foreign = SimulatedDisk(), SimulatedDisk()
    fill_segments(open_journal(ours), 0, 2)
    alien = Journal(foreign, settings(), new_journal_id=1, now_ms=NOW_MS)
    commit(alien, 0, entry(77))
    ours.files["0009.segment"] = foreign.files["0000.segment"]
    for name in ("state-0", "state-1"):
        ours.remove(name)
    assert sequences(read_all(open_journal(ours))) == list(range(8))


def test_recovery_reads_only_the_last_segment_of_each_lane() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=8))
    fill_segments(journal, 0, 6)
    journal.close(NOW_MS)
    read_names = []
    original = disk.read

    def read(name: str, offset: int, size: int) -> bytes:
        read_names.append(name)
        return original(name, offset, size)

    disk.read = read  # type: ignore[method-assign]
    open_journal(disk, settings(segments=8))
    assert len({name for name in read_names if name.endswith(".segment")}) == 1


class UnreadableDisk(SimulatedDisk):
    """Refuses every read, for a reason that is not the medium's."""

    error = 0

    def read(self, name: str, offset: int, size: int) -> bytes:
        if self.error:
            raise OSError(self.error, "no", name)
        return super().read(name, offset, size)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.ENOMEM])
def test_what_cannot_be_read_for_a_reason_of_ours_is_no_damage(error: int) -> None:
    disk = UnreadableDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0), entry(1))
    cursor = journal.cursor("publisher")
    disk.error = error
    with pytest.raises(OSError, match="no"):
        cursor.take(10)
    with pytest.raises(OSError, match="no"):
        open_journal(disk)
    disk.error = 0
    assert sequences(read_all(journal)) == [0, 1]
    assert journal.pending_losses() == ()
    assert open_journal(disk).stats(NOW_MS).lost_states == 0


class ShrinkingDisk(SimulatedDisk):
    """Another process deletes a file between two reads."""

    def size(self, name: str) -> int:
        if name == "0001.segment":
            self.files.pop(name, None)
        return super().size(name)


def test_a_file_that_goes_while_it_is_looked_at_is_none() -> None:
    disk = ShrinkingDisk()
    fill_segments(open_journal(disk), 1, 3)
    view = inspect_journal(disk)
    assert view.pages.keys() == {0, 2}


def test_a_block_that_cannot_be_made_durable_is_not_read_until_it_is() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0))
    disk.fault = lambda operation, name: errno.EIO if operation == "sync" and name.endswith(".segment") else None
    with pytest.raises(StorageError):
        commit(journal, 0, entry(1))
    left, failing = disk.after_kill(), disk.fault
    left.fault = failing
    reopened = open_journal(left)
    assert sequences(read_all(reopened)) == [0]
    assert reopened.durable_position(0) == 1
    with pytest.raises(StorageError, match="cannot sync what the last run wrote"):
        reopened.tick(NOW_MS)
    left.fault = disk.after_kill().fault
    reopened.tick(NOW_MS)
    assert sequences(read_all(reopened)) == [1]
    found = open_journal(left.after_power_loss(random.Random(1)))
    assert sequences(read_all(found)) == [0, 1]


class BadPageDisk(SimulatedDisk):
    """One page of a file cannot be read."""

    bad_page = -1

    def read(self, name: str, offset: int, size: int) -> bytes:
        first, last = offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES
        if name == "0000.segment" and first <= self.bad_page <= last:
            raise OSError(errno.EIO, "Input/output error", name)
        return super().read(name, offset, size)


def test_a_page_that_cannot_be_read_costs_its_records_only() -> None:
    disk = BadPageDisk()
    journal = open_journal(disk, settings(compression="none"))
    for number in range(4):
        commit(journal, 0, entry(number, 3000))
    disk.bad_page = 1
    assert sequences(read_all(journal)) == [0, 2, 3]
    assert reported(journal) == [(1, 1, 1, Cause.DAMAGED)]


def test_positions_that_a_page_at_the_end_may_hold_are_not_used_again_and_it_is_not_overwritten() -> None:
    disk = BadPageDisk()
    journal = open_journal(disk, settings(compression="none"))
    for number in range(3):
        commit(journal, 0, entry(number, 3000))
    disk.bad_page = 2
    for _ in range(2):  # reported once, however often it is opened
        journal = open_journal(disk, settings(compression="none"))
        assert reported(journal) == [(2, 1 + MAX_BLOCK_READINGS, MAX_BLOCK_READINGS, Cause.DAMAGED)]
    commit(journal, 0, entry(3))
    read_all(journal)
    disk.bad_page = -1
    journal.cursor("publisher").rewind()
    records = read_all(journal)
    assert sequences(records) == [0, 1, 2, 3], "what can be read again is there"
    assert records[-1].position == 2 + MAX_BLOCK_READINGS
    assert reported(journal) == [(2, 1 + MAX_BLOCK_READINGS, MAX_BLOCK_READINGS, Cause.DAMAGED)]
