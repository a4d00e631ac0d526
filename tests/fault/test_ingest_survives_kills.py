"""Whatever is killed, when it runs again the tables equal the truth and the ledger balances."""

import contextlib
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.effort import FIRST_SEED, effort
from tests.support.corpus_scenario import everything, land
from tests.support.corpus_truth import Truth
from tests.support.lake_tables import Rows, assert_tables_are_true, read_all
from tests.support.patience import PATIENCE_S
from tests.support.spark_processes import (
    await_line,
    begin,
    cluster,
    finish,
    kill,
    operator_files,
    prepare_run,
    run_arguments,
    start_run,
    stop,
)

pytestmark = pytest.mark.slow

KILLS = effort(test=2, soak=40)
LONGEST_LIFE = 1.2  # of a run, in times of what its first batch takes


@pytest.fixture(scope="module")
def truth() -> Truth:
    return everything()[1]


def open_gaps_only(rows: dict[str, Rows]) -> dict[str, Rows]:
    """Which gaps were open for a while depends on how the archives were batched."""
    return {**rows, "gaps": [row for row in rows["gaps"] if row["state"] == "open"]}


def test_a_driver_killed_again_and_again_leaves_the_truth(tmp_path: Path, truth: Truth) -> None:
    """Each is killed at a random moment of its first batch or soon after; the next one's Spark starts meanwhile."""
    land(tmp_path / "landing", truth.landed)
    arguments = run_arguments(tmp_path, *operator_files(tmp_path))
    chance = random.Random(7 + FIRST_SEED)
    first_batch_s = 0.0
    with contextlib.ExitStack() as stack:
        following = stack.enter_context(prepare_run(arguments))
        for number in range(KILLS):
            process, following = following, stack.enter_context(prepare_run(arguments))
            begin(process)
            await_line(process, "archives to look at")
            started_s = time.monotonic()
            if number == 0:
                await_line(process, "archives to go")
                first_batch_s = time.monotonic() - started_s
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0, LONGEST_LIFE) * first_batch_s)
            kill(process, chance)
            if number == KILLS // 2:
                shutil.rmtree(tmp_path / "tables" / "_headgate" / "checkpoint", ignore_errors=True)
        finish(following)
    found = read_all(tmp_path / "tables")
    assert_tables_are_true(open_gaps_only(found), truth, [])
    assert all(row["balanced"] for row in found["ledger"])


def test_a_worker_killed_on_a_cluster_costs_nothing_but_time(tmp_path: Path, truth: Truth) -> None:
    land(tmp_path / "landing", truth.landed)
    with cluster(tmp_path, workers=2) as (url, workers):
        arguments = run_arguments(tmp_path, *operator_files(tmp_path), "--master", url)
        with start_run([*arguments, "--conf", "spark.executor.memory=512m"]) as process:
            await_line(process, "archives to go")
            stop(workers[0])
            finish(process)
    assert_tables_are_true(open_gaps_only(read_all(tmp_path / "tables")), truth, [])


def test_the_second_of_two_runs_at_once_refuses(tmp_path: Path, truth: Truth) -> None:
    land(tmp_path / "landing", truth.landed[:4])
    arguments = run_arguments(tmp_path, *operator_files(tmp_path))
    with start_run(arguments) as first:
        await_line(first, "archives to look at")
        with start_run(arguments) as second:
            _, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 69
        assert "another run writes these tables" in said
        finish(first)
