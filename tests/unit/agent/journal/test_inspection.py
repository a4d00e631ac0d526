import random

from agent.journal.inspection import look, stats_of, verify
from tests.simulated_disk import SimulatedDisk
from tests.unit.agent.journal.helpers import NOW_MS, commit, entry, fill_segments, open_journal, settings


def test_looking_changes_nothing() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk)
    fill_segments(journal, 0, 2)

    def fail() -> None:
        raise AssertionError("who looks must not touch")

    disk.before_each = fail
    assert verify(disk).is_sound
    assert stats_of(look(disk), NOW_MS).lanes[0].next_position == 8


def test_stats_from_outside_agree_with_those_from_inside() -> None:
    disk = SimulatedDisk()
    journal = open_journal(disk, settings(card_endurance_bytes=10**9))
    fill_segments(journal, 0, 2)
    fill_segments(journal, 3, 1)
    journal.cursor("publisher").acknowledge(0, 5)
    inside = journal.stats(NOW_MS + 1000)
    journal.close(NOW_MS + 1000)
    outside = stats_of(look(disk), NOW_MS + 1000)
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
