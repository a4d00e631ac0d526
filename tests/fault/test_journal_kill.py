"""Promise 1 of the journal, on a real disk: a process killed at any moment loses nothing it said was committed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.losses import Cause
from tests.effort import FIRST_SEED, effort
from tests.support.journal_victim import LANES, next_position, open_journal, payload_at, readings_at
from tests.support.processes import ended

KILLS = effort(test=25, soak=2_000)


def _run_and_kill(directory: Path, seed: int, commits: int) -> dict[int, int]:
    """Let the victim live for about so many commits; give the next position of each lane that it reported last."""
    command = [sys.executable, "-m", "tests.support.journal_victim", str(directory), str(seed)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as victim:
        assert victim.stdout is not None
        reported = [victim.stdout.readline() for _ in range(commits)]
        victim.kill()
        reported += victim.stdout.read().splitlines()
        assert victim.wait() == -9
    whole = [line for line in reported if line.count(":") == len(LANES)]
    return dict(_lane_and_position(part) for part in whole[-1].split()) if whole else {}


def _lane_and_position(part: str) -> tuple[int, int]:
    lane, position = part.split(":")
    return int(lane), int(position)


def _check_and_release(directory: Path, expected: dict[int, int], reported: dict[int, int]) -> None:
    """Everything reported is there, exactly and in order. What was checked is acknowledged, so that it is read once."""
    journal = open_journal(directory)
    archiver = journal.cursor("archiver")
    for lane in LANES:
        while records := archiver.take(1000, lane=lane):
            for record in records:
                assert record.position == expected[lane]
                assert record.payload == payload_at(lane, record.position)
                assert record.readings == readings_at(record.position)
                expected[lane] = record.next_position
        assert expected[lane] >= reported.get(lane, 0), "committed records are gone"
        torn = sum(gap.loss.count for gap in journal.pending_losses() if gap.loss.lane == lane)
        assert expected[lane] + torn == next_position(journal, lane)
        expected[lane] += torn
        if expected[lane]:
            archiver.acknowledge(lane, expected[lane] - 1)
    for gap in journal.pending_losses():
        assert gap.loss.cause == Cause.UNFINISHED, "the kill may have torn a block that was not committed"
        journal.acknowledge_loss(gap.number)
    journal.close(0)


@pytest.mark.slow
def test_nothing_committed_is_lost_however_often_the_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(4 + FIRST_SEED)
    expected = dict.fromkeys(LANES, 0)
    for kill in range(KILLS):
        reported = _run_and_kill(tmp_path, FIRST_SEED + kill, chance.randint(0, 25))
        _check_and_release(tmp_path, expected, reported)
    assert min(expected.values()) > KILLS
