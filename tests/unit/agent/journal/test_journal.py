import errno

import pytest

from agent.errors import StorageError
from agent.journal import Entry
from protocol.losses import Cause
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


class FailingDisk(SimulatedDisk):
    """A disk whose sync fails on demand, and then, as Linux does, forgets what it did not write."""

    is_failing = False

    def sync(self, name: str) -> None:
        if self.is_failing and name.endswith(".segment"):
            self.files[name].content[:] = self.files[name].durable
            self.files[name].unsynced.clear()
            raise OSError(errno.EIO, "Input/output error", name)
        super().sync(name)


def test_what_is_committed_is_read_back_in_order_after_reopening() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    positions = journal.append_many(1, [entry(number) for number in range(5)])
    assert list(positions) == [0, 1, 2, 3, 4]
    journal.commit(NOW_MS)
    assert sequences(read_all(open_journal(disk))) == [0, 1, 2, 3, 4]


def test_what_is_not_committed_is_not_read() -> None:
    journal = open_journal(SimulatedDisk())
    journal.append(1, entry(0))
    assert read_all(journal) == []


def test_one_commit_is_one_write_and_one_sync_per_lane() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0))
    commit(journal, 1, entry(0))
    operations = 0

    def count() -> None:
        nonlocal operations
        operations += 1

    disk.before_each = count
    journal.append_many(0, [entry(number) for number in range(50)])
    journal.append(1, entry(1))
    journal.commit(NOW_MS)
    assert operations == 4


@pytest.mark.parametrize(
    ("lane", "bad", "problem"),
    [
        (32, entry(1), "lane 32"),
        (0, entry(1, size=5000), "payload bytes 5000"),
        (0, Entry(b"", "", 1, 1), "chain ''"),
        (0, Entry(b"", "x" * 256, 1, 1), "chain"),
        (0, Entry(b"", "a\nb", 1, 1), "chain"),
        (0, Entry(b"", "c", -1, 1), "timestamp_ms -1"),
        (0, Entry(b"", "c", 1, 2**32), "sequence 4294967296"),
    ],
)
def test_a_bad_entry_is_refused_by_name_and_nothing_of_its_batch_is_taken(lane: int, bad: Entry, problem: str) -> None:
    journal = open_journal(SimulatedDisk())
    with pytest.raises(ValueError, match=problem):
        journal.append_many(lane, [entry(0), bad])
    journal.commit(NOW_MS)
    assert read_all(journal) == []


def test_what_waits_for_commit_is_bounded() -> None:
    journal = open_journal(SimulatedDisk(), settings(max_pending_bytes=100))
    journal.append(0, entry(0, 90))
    with pytest.raises(StorageError, match="90 bytes wait"):
        journal.append(0, entry(1, 90))
    journal.commit(NOW_MS)
    journal.append(0, entry(1, 90))


def test_a_commit_that_failed_is_repeated_elsewhere_and_nothing_is_lost_or_doubled() -> None:
    disk = FailingDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0))
    disk.is_failing = True
    journal.append(0, entry(1))
    with pytest.raises(StorageError, match="Input/output error"):
        journal.commit(NOW_MS)
    journal.append(0, entry(2))
    disk.is_failing = False
    journal.commit(NOW_MS)
    commit(journal, 0, entry(3))
    assert sequences(read_all(journal)) == [0, 1, 2, 3]
    reopened = open_journal(disk)
    assert sequences(read_all(reopened)) == [0, 1, 2, 3]
    assert reopened.pending_losses() == ()


def test_records_that_a_reader_gives_up_later_are_durable_losses_of_that_reader_and_recorded_once() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0), entry(1), entry(2))
    commit(journal, 3, entry(7))
    records = read_all(journal)
    for _ in range(2):
        journal.record_refused([records[3], records[2], records[1]], "publisher", NOW_MS)
    pending = open_journal(disk).pending_losses()
    assert {each.loss.cause for each in pending} == {Cause.REFUSED}
    assert sorted(
        (each.loss.lane, each.loss.first_position, each.loss.last_position, each.loss.count) for each in pending
    ) == [(0, 1, 2, 2), (3, 0, 0, 1)]


def test_a_large_batch_becomes_several_blocks() -> None:
    journal = open_journal(SimulatedDisk(), settings(compression="none"))
    commit(journal, 0, *(entry(number, 1000) for number in range(20)))
    assert sequences(read_all(journal)) == list(range(20))
    assert journal.stats(NOW_MS).commits > 1


def test_a_journal_that_keeps_up_lives_in_one_file_per_lane() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    cursor = journal.cursor("publisher")
    for number in range(200):
        commit(journal, 0, entry(number, 3000))
        cursor.acknowledge(0, cursor.take(1)[0].position)
    assert [name for name in disk.files if name.endswith(".segment")] == ["0000.segment"]


def test_a_lowered_cap_holds_from_the_start_and_each_loss_is_reported() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=12))
    fill_segments(journal, 0, 3)
    fill_segments(journal, 5, 6)
    journal.close(NOW_MS)
    smaller = settings(segments=5)
    journal = open_journal(disk, smaller)
    assert disk.used_bytes <= smaller.max_bytes
    assert {gap.loss.lane for gap in journal.pending_losses()} == {5}
    assert len(read_all(journal, lane=0)) == 12


def test_a_full_journal_that_must_not_shed_stops_until_a_cursor_moves() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4, when_full="stop_reading"))
    fill_segments(journal, 0, 4)
    journal.append(0, entry(16, 3000))
    with pytest.raises(StorageError, match="full"):
        journal.commit(NOW_MS)
    journal.cursor("publisher").acknowledge(0, 4)
    journal.commit(NOW_MS)
    assert journal.stats(NOW_MS).shed_readings == 0
    assert sequences(read_all(journal)) == list(range(5, 17))


def test_stats_say_how_far_behind_and_what_it_costs() -> None:
    journal = open_journal(SimulatedDisk(), settings(card_endurance_bytes=10**9))
    fill_segments(journal, 0, 1)
    journal.cursor("publisher").acknowledge(0, 0)
    stats = journal.stats(NOW_MS + 5000)
    assert stats.cursors["publisher"].depth == 3
    assert stats.cursors["publisher"].oldest_age_s == 5
    assert (stats.records, stats.commits, stats.payload_bytes) == (4, 4, 12_000)
    assert stats.written_bytes >= 4 * 4096
    assert stats.bytes_on_disk <= stats.max_bytes


def test_a_disk_that_refuses_again_and_again_costs_no_more_than_the_first_refusal() -> None:
    disk = FailingDisk()
    journal = open_journal(disk, settings(when_full="shed"))
    count = fill_segments(journal, 1, 7)
    commit(journal, 1, entry(count))
    journal.append(1, entry(count + 1))
    disk.is_failing = True
    for _ in range(20):
        with pytest.raises(StorageError, match="commit failed"):
            journal.commit(NOW_MS)
    disk.is_failing = False
    journal.commit(NOW_MS)
    assert journal.stats(NOW_MS).shed_readings <= 4, "more than the one segment whose room was needed"
    kept = sequences(read_all(journal))
    assert kept == list(range(count + 2 - len(kept), count + 2))
    assert sequences(read_all(open_journal(disk))) == kept
