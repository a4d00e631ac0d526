import random

import pytest

from agent.journal.inspection import Follower, inspect_journal, stats_of
from agent.journal.layout import PAGE_BYTES
from agent.journal.repair import verify
from tests.support.journal_helpers import NOW_MS, commit, entry, fill_segments, open_journal, sequences, settings
from tests.support.simulated_disk import SimulatedDisk


def test_looking_changes_nothing() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    fill_segments(journal, 0, 2)

    def fail() -> None:
        raise AssertionError("who looks must not touch")

    disk.before_each = fail
    assert verify(disk).is_sound
    assert stats_of(inspect_journal(disk), NOW_MS).lanes[0].next_position == 8


def test_stats_from_outside_agree_with_those_from_inside() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(card_endurance_bytes=10**9))
    fill_segments(journal, 0, 2)
    fill_segments(journal, 3, 1)
    journal.cursor("publisher").acknowledge(0, 5)
    inside = journal.stats(NOW_MS + 1000)
    journal.close(NOW_MS + 1000)
    outside = stats_of(inspect_journal(disk), NOW_MS + 1000)
    assert outside.lanes == inside.lanes
    assert outside.cursors == inside.cursors
    assert outside.payload_bytes == inside.payload_bytes
    assert outside.max_bytes == inside.max_bytes
    assert outside.commits_per_s == inside.commits_per_s


def test_a_live_journal_never_looks_damaged() -> None:
    """While verify reads, the writer goes on: through commits, shedding, thinning and the reuse of files."""
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=5, thinned_lanes=frozenset({2})))
    chance = random.Random(3)
    snapshots: list[SimulatedDisk] = []
    verdicts = []

    def check() -> None:
        snapshots.append(disk.after_kill())
        if chance.random() < 0.3:
            verdicts.append(verify(_MovingDisk(chance.choice(snapshots[-12:]), snapshots[-1], chance.randint(1, 30))))

    disk.before_each = check
    for number in range(60):
        commit(journal, chance.choice((0, 2)), entry(number, 3000))
        if number % 9 == 0:
            cursor = journal.cursor("publisher")
            cursor.acknowledge(0, cursor.take(1, lane=0)[-1].position)
    assert len(verdicts) > 30
    assert all(not verdict.damage for verdict in verdicts)


class _MovingDisk(SimulatedDisk):
    """A disk that another process writes to: after some reads it is as it was later."""

    def __init__(self, earlier: SimulatedDisk, later: SimulatedDisk, reads: int) -> None:
        super().__init__()
        self.files = earlier.files
        self._later = later
        self._reads_left = reads

    def read(self, name: str, offset: int, size: int) -> bytes:
        self._reads_left -= 1
        if self._reads_left == 0:
            self.files = self._later.files
        return super().read(name, offset, size)


def test_a_torn_tail_is_known_and_no_damage() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(compression="none"))
    commit(journal, 0, entry(0))
    commit(journal, 0, entry(1, 3000))
    disk.files["0000.segment"].content[4096 + 1000] ^= 1
    verdict = verify(disk)
    assert verdict.is_sound
    assert [loss.first_position for loss in verdict.known] == [1]


def new(follower: Follower, disk: SimulatedDisk) -> list[int]:
    return sequences(list(follower.new_records(disk)))


def test_it_begins_where_requested_and_gives_each_record_once() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 0, *(entry(number) for number in range(5)))
    follower, late = Follower(inspect_journal(disk), 2), Follower(inspect_journal(disk))
    assert (new(follower, disk), new(late, disk)) == ([3, 4], [])
    commit(journal, 0, entry(5), entry(6))
    commit(journal, 0, entry(7))
    assert (new(follower, disk), new(late, disk)) == ([5, 6, 7], [5, 6, 7])
    assert new(follower, disk) == []


def test_it_goes_on_over_segments_and_into_new_lanes() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    follower = Follower(inspect_journal(disk))
    end = fill_segments(journal, 3, 3)
    assert new(follower, disk) == list(range(end))
    commit(journal, 1, entry(100))
    fill_segments(journal, 3, 2, start=end)
    assert new(follower, disk) == [100, *range(end, end + 8)]


def test_it_holds_nothing_back_and_passes_over_what_is_gone() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4))
    follower = Follower(inspect_journal(disk))
    fill_segments(journal, 0, 20)
    given = new(follower, disk)
    assert given == sorted(set(given))
    assert given[-1] == 79
    assert 0 < len(given) < 80, "the journal shed what did not fit, as without an inspection"


def test_it_follows_through_shedding_thinning_and_the_reuse_of_files() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(segments=4, thinned_lanes=frozenset({2})))
    follower = Follower(inspect_journal(disk))
    given: list[int] = []
    for number in range(200):
        commit(journal, 2, entry(number, 3000))
        given += new(follower, disk)
    assert given == list(range(200)), "who looks after every commit sees every record, once, in order"


def test_following_changes_nothing() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    fill_segments(journal, 0, 2)

    def fail() -> None:
        raise AssertionError("who looks must not touch")

    disk.before_each = fail
    assert new(Follower(inspect_journal(disk), 100), disk) == list(range(8))


@pytest.mark.parametrize("torn_at", [1, 100, 2000])
def test_a_block_that_is_being_written_is_left_for_the_next_look(torn_at: int) -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(compression="none"))
    commit(journal, 0, entry(0))
    follower = Follower(inspect_journal(disk), 1)
    assert new(follower, disk) == [0]
    name = next(name for name in disk.names() if not name.startswith("state"))
    before = disk.read(name, PAGE_BYTES, PAGE_BYTES)
    commit(journal, 0, entry(1, 3000))
    whole = disk.read(name, PAGE_BYTES, PAGE_BYTES)
    disk.write(name, PAGE_BYTES, whole[:torn_at] + before[torn_at:])
    assert new(follower, disk) == []
    disk.write(name, PAGE_BYTES, whole)
    assert new(follower, disk) == [1]


def test_damage_costs_what_is_damaged() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    follower = Follower(inspect_journal(disk))
    fill_segments(journal, 0, 3)
    name = next(name for name in sorted(disk.names()) if not name.startswith("state"))
    disk.write(name, PAGE_BYTES, bytes(PAGE_BYTES))
    assert new(follower, disk) == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_block_torn_at_first_sight_is_looked_at_again_once_another_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer may finish a block, and the next, between two reads of one look."""
    disk = SimulatedDisk()
    journal = open_journal(disk)
    commit(journal, 0, entry(0))
    follower = Follower(inspect_journal(disk))
    name = next(name for name in disk.names() if not name.startswith("state"))
    commit(journal, 0, entry(1, 3000))
    commit(journal, 0, entry(2))
    whole = disk.read(name, PAGE_BYTES, PAGE_BYTES)
    disk.write(name, PAGE_BYTES, whole[:200] + bytes(PAGE_BYTES - 200))
    real_read = disk.read

    def finish_after_the_first_look(file: str, offset: int, size: int) -> bytes:
        if (file, offset) == (name, 2 * PAGE_BYTES):
            disk.write(name, PAGE_BYTES, whole)
        return real_read(file, offset, size)

    monkeypatch.setattr(disk, "read", finish_after_the_first_look)
    assert new(follower, disk) == [1, 2]
