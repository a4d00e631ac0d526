import pytest

from tests.support.journal_helpers import (
    NOW_MS,
    commit,
    entry,
    fill_segments,
    open_journal,
    read_all,
    sequences,
    settings,
)
from tests.support.simulated_disk import SimulatedDisk

TWO = settings(cursors=("publisher", "archiver"), positions_interval_ms=1000)


def test_the_most_important_lane_comes_first() -> None:
    journal = open_journal(SimulatedDisk())
    commit(journal, 5, entry(50))
    commit(journal, 0, entry(1))
    cursor = journal.cursor("publisher")
    assert cursor.waiting_lanes() == [0, 5]
    assert sequences(cursor.take(10)) == [1]
    assert sequences(cursor.take(10)) == [50]
    assert cursor.take(10) == []


def test_a_lane_may_be_chosen() -> None:
    journal = open_journal(SimulatedDisk())
    commit(journal, 0, entry(1))
    commit(journal, 5, entry(50))
    assert sequences(journal.cursor("publisher").take(10, lane=5)) == [50]
    assert journal.cursor("publisher").take(10, lane=9) == []


def test_what_was_taken_and_not_acknowledged_comes_again_after_rewind() -> None:
    journal = open_journal(SimulatedDisk())
    commit(journal, 0, *map(entry, range(6)))
    cursor = journal.cursor("publisher")
    cursor.acknowledge(0, cursor.take(2)[-1].position)
    assert sequences(cursor.take(2)) == [2, 3]
    cursor.rewind()
    assert sequences(cursor.take(9)) == [2, 3, 4, 5]


def test_cursors_are_independent() -> None:
    journal = open_journal(SimulatedDisk(), TWO)
    commit(journal, 0, *map(entry, range(3)))
    journal.cursor("publisher").acknowledge(0, 2)
    assert sequences(read_all(journal, "archiver")) == [0, 1, 2]


def test_a_cursor_resumes_where_it_stood_when_closed() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, TWO)
    commit(journal, 0, *map(entry, range(5)))
    journal.cursor("publisher").acknowledge(0, 2)
    journal.close(NOW_MS)
    assert sequences(read_all(open_journal(disk, TWO))) == [3, 4]


def test_a_crash_repeats_what_was_acknowledged_since_the_last_save() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, TWO)
    commit(journal, 0, *map(entry, range(5)))
    journal.cursor("publisher").acknowledge(0, 1)
    journal.tick(NOW_MS + 1000)
    journal.cursor("publisher").acknowledge(0, 3)
    journal.tick(NOW_MS + 1500)
    assert sequences(read_all(open_journal(disk.after_kill(), TWO))) == [2, 3, 4]


def test_acknowledging_backwards_changes_nothing() -> None:
    journal = open_journal(SimulatedDisk())
    commit(journal, 0, *map(entry, range(5)))
    cursor = journal.cursor("publisher")
    cursor.acknowledge(0, 3)
    cursor.acknowledge(0, 1)
    assert cursor.position(0) == 4


def test_what_is_not_committed_cannot_be_acknowledged() -> None:
    journal = open_journal(SimulatedDisk())
    commit(journal, 0, entry(0))
    with pytest.raises(ValueError, match="position 1 of lane 0 is not committed"):
        journal.cursor("publisher").acknowledge(0, 1)


def test_a_segment_goes_only_when_every_cursor_has_passed_it() -> None:
    journal = open_journal(SimulatedDisk(), TWO)
    fill_segments(journal, 0, 3)
    journal.cursor("publisher").acknowledge(0, 11)
    assert journal.stats(NOW_MS).lanes[0].segments == 3
    journal.cursor("archiver").acknowledge(0, 6)
    assert journal.stats(NOW_MS).lanes[0].first_position == 4


def test_a_new_cursor_begins_at_the_oldest_record() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings())
    fill_segments(journal, 0, 2)
    journal.cursor("publisher").acknowledge(0, 6)
    journal.close(NOW_MS)
    assert sequences(read_all(open_journal(disk, TWO), "archiver")) == [4, 5, 6, 7]


def test_records_shed_after_they_were_read_ahead_are_not_handed_out() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4, compression="none"))
    commit(journal, 3, *(entry(number, 400) for number in range(8)))
    cursor = journal.cursor("publisher")
    assert sequences(cursor.take(1)) == [0]
    fill_segments(journal, 3, 5, start=100)
    first = journal.stats(NOW_MS).lanes[3].first_position
    assert first > 8
    assert cursor.take(1)[0].position == first


def test_a_record_that_is_acknowledged_in_part_comes_again_whole() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, TWO)
    commit(journal, 0, entry(0, readings=3), entry(1, readings=5), entry(2, readings=2))
    cursor = journal.cursor("publisher")
    first, second, third = cursor.take(9)
    cursor.acknowledge(0, first.next_position - 1)
    assert cursor.position(0) == second.position
    for position in (second.position, second.next_position - 2):
        cursor.acknowledge(0, position)
        cursor.rewind()
        assert cursor.take(9) == [second, third]
    journal.close(NOW_MS)
    cursor = open_journal(disk, TWO).cursor("publisher")
    assert cursor.take(1) == [second]
    cursor.acknowledge(0, second.next_position - 1)
    assert cursor.take(9) == [third]
    cursor.rewind()
    assert cursor.take(9) == [third]


def test_a_segment_stays_until_the_last_reading_in_it_is_acknowledged() -> None:
    journal = open_journal(SimulatedDisk())
    for number in range(5):
        commit(journal, 0, entry(number, 3000, readings=10))
    cursor = journal.cursor("publisher")
    cursor.acknowledge(0, 38)
    assert journal.stats(NOW_MS).lanes[0].segments == 2
    cursor.acknowledge(0, 39)
    assert journal.stats(NOW_MS).lanes[0].segments == 1


def test_a_record_comes_once_also_if_others_are_shed_meanwhile() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4))
    commit(journal, 0, *(entry(number, 700, readings=5) for number in range(4)))
    cursor = journal.cursor("publisher")
    assert [record.position for record in cursor.take(2)] == [0, 5]
    journal._store.lanes[0].changes += 1  # as if something before it was shed
    assert [record.position for record in cursor.take(9)] == [10, 15]
