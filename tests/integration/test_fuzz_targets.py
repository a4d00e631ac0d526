"""Each fuzz target runs briefly, so that none of them rots."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import FIRST_SEED, effort

FUZZ = Path(__file__).parents[1] / "fuzz"
TARGETS = sorted(path.stem for path in FUZZ.glob("[a-z]*.py"))

RUNS = effort(test=1_000, soak=100_000_000)
SECONDS = effort(test=20, soak=120)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_brief_run_finds_nothing(target: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        target,
        f"-runs={RUNS}",
        f"-max_total_time={SECONDS}",
        f"-seed={FIRST_SEED + 1}",
        "-timeout=10",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(FUZZ.parents[1])}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "INITED cov:" in done.stderr, "the target is not instrumented"
