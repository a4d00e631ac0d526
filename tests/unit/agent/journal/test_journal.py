import contextlib
import errno
import itertools
import random
from collections.abc import Iterator

import pytest

from agent.errors import StorageError
from agent.journal import Entry, Journal
from agent.journal.records import MAX_POSITION, MAX_RECORD_READINGS
from agent.journal.repair import verify
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


# Readings


def test_positions_number_readings() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    assert journal.append_many(1, [entry(0, readings=3), entry(1), entry(2, readings=250)]) == [0, 3, 4]
    assert journal.append(1, entry(3)) == 254
    journal.commit(NOW_MS)
    records = read_all(open_journal(disk))
    assert [(record.position, record.readings, record.next_position) for record in records] == [
        (0, 3, 3),
        (3, 1, 4),
        (4, 250, 254),
        (254, 1, 255),
    ]
    stats = journal.stats(NOW_MS)
    assert (stats.records, stats.readings) == (4, 255)
    assert (stats.lanes[1].next_position, stats.cursors["publisher"].depth) == (255, 255)


def test_a_commit_with_more_readings_than_a_block_holds_becomes_several_blocks() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 1, *(entry(number, readings=MAX_RECORD_READINGS) for number in range(3)))
    assert [record.position for record in read_all(open_journal(disk))] == [0, 65_535, 131_070]
    assert journal.stats(NOW_MS).commits == 3


@pytest.mark.parametrize("readings", [0, -1, MAX_RECORD_READINGS + 1])
def test_an_entry_has_at_least_one_reading_and_not_too_many(readings: int) -> None:
    journal = open_journal(SimulatedDisk())
    with pytest.raises(ValueError, match=f"readings {readings} is not in 1 to 65535"):
        journal.append_many(0, [entry(0), entry(1, readings=readings)])
    journal.commit(NOW_MS)
    assert read_all(journal) == []


def test_what_is_not_stored_is_counted_in_readings() -> None:
    journal = open_journal(SimulatedDisk(), settings(segments=4))
    fill_segments(journal, 0, 4)
    commit(journal, 5, entry(100, 3000, readings=7), entry(101, readings=5))
    assert reported(journal) == [(0, 11, 12, Cause.JOURNAL_FULL)]
    assert journal.append(5, entry(102)) == 12
    assert journal.stats(NOW_MS).shed_readings == 12


# Advancing


def _advanced(disk: SimulatedDisk, position: int = 1000) -> Journal:
    journal = open_journal(disk)
    commit(journal, 0, entry(0, readings=4))
    journal.advance_to(0, position, NOW_MS)
    return journal


def test_a_lane_that_is_advanced_goes_on_there_and_what_it_passes_over_is_lost() -> None:
    disk = SimulatedDisk()
    journal = _advanced(disk)
    commit(journal, 0, entry(1))
    for each in (journal, open_journal(disk.after_power_loss(random.Random(1)))):
        assert [record.position for record in read_all(each)] == [0, 1000]
        assert reported(each) == [(4, 999, 996, Cause.DAMAGED)], "once, whichever reader finds it"
        assert each.stats(NOW_MS).damaged_readings == 996
    assert verify(disk).is_sound


def test_a_lane_that_is_advanced_again_or_back_changes_as_far_as_it_is_new() -> None:
    journal = _advanced(SimulatedDisk())
    for position in (1000, 0, 1002):
        journal.advance_to(0, position, NOW_MS)
    assert reported(journal) == [(4, 999, 996, Cause.DAMAGED), (1000, 1001, 2, Cause.DAMAGED)]
    assert journal.append(0, entry(1)) == 1002


def test_a_lane_without_records_can_be_advanced() -> None:
    disk = SimulatedDisk()
    open_journal(disk).advance_to(7, 50, NOW_MS)
    journal = open_journal(disk)
    assert reported(journal) == [(0, 49, 50, Cause.DAMAGED)]
    assert journal.append(7, entry(0)) == 50


def test_what_waits_is_committed_at_its_positions_before_the_lane_is_advanced() -> None:
    journal = open_journal(SimulatedDisk())
    journal.append(0, entry(0, readings=3))
    journal.advance_to(0, 10, NOW_MS)
    assert [record.position for record in read_all(journal)] == [0]
    assert reported(journal) == [(3, 9, 7, Cause.DAMAGED)]


@pytest.mark.parametrize(("lane", "position"), [(-1, 0), (32, 0), (0, -1), (0, MAX_POSITION)])
def test_a_lane_is_not_advanced_beyond_the_limits(lane: int, position: int) -> None:
    with pytest.raises(ValueError, match="is not in 0 to"):
        open_journal(SimulatedDisk()).advance_to(lane, position, NOW_MS)


def test_an_advance_survives_a_power_cut_at_any_operation_as_a_whole_or_not_at_all() -> None:
    for crash_at in itertools.count(1):
        disk, chance = SimulatedDisk(), random.Random(crash_at)
        journal = open_journal(disk)
        commit(journal, 0, entry(0, readings=4))
        left = iter(range(crash_at))

        def cut(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise PowerCutError

        disk.before_each = cut
        has_returned = False
        with contextlib.suppress(PowerCutError):
            journal.advance_to(0, 1000, NOW_MS)
            has_returned = True
            commit(journal, 0, entry(1))
        found = open_journal(disk.after_power_loss(chance))
        position, losses = found.append(0, entry(2)), reported(found)
        assert (position >= 1000) == (losses == [(4, 999, 996, Cause.DAMAGED)])
        assert position >= 1000 or not has_returned
        if next(left, None) is not None:
            break
    assert crash_at > 3


class PowerCutError(Exception):
    pass


def test_an_advance_that_the_disk_refuses_can_be_repeated() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    disk.fault = lambda operation, _name: errno.EIO if operation == "sync" else None
    with pytest.raises(StorageError):
        journal.advance_to(0, 10, NOW_MS)
    disk.fault = lambda _operation, _name: None
    journal.advance_to(0, 10, NOW_MS)
    assert reported(open_journal(disk.after_power_loss(random.Random(1)))) == [(0, 9, 10, Cause.DAMAGED)]
