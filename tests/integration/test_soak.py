"""`make soak`, on a test of its own: the seed is printed and changes, the counts are large, the end comes in time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]

GOES_ON = "import threading\ndef test_it(): threading.Event().wait()\n"

pytestmark = pytest.mark.slow


def soak(folder: Path, test: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Of this test alone, without the fixtures of the suite."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (folder / "test_one.py").write_text(test)
    command = [sys.executable, "-m", "tests.soak", *arguments, "--", "-p", "tests.support.soak_order"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(folder), "-c", str(folder / "pytest.ini"), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_when_the_time_is_up_the_test_that_runs_is_stopped_and_the_next_does_not_begin(tmp_path: Path) -> None:
    done = soak(tmp_path, f"{GOES_ON}def test_another(): pass\n", "--minutes", "0.05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 skipped" in done.stdout
    assert "error" not in done.stdout
    assert "1 rounds, nothing failed" in done.stdout


def test_a_round_that_fails_is_the_last_and_its_seed_gives_it_again(tmp_path: Path) -> None:
    failing = (
        "from tests.effort import FIRST_SEED, effort\ndef test_it(): assert effort(test=1, soak=9) * 0, FIRST_SEED\n"
    )
    done = soak(tmp_path, failing, "--seed", "1234")
    assert done.returncode == 1
    first, *_, last = done.stdout.splitlines()
    assert first == "round 1; seed 1234; again: make soak SEED=1234"
    assert "AssertionError: 1234" in done.stdout
    assert last == "round 1 failed; seed 1234; again: make soak SEED=1234"
