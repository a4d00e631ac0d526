"""A real agent runs a few times and ships to a real collector; then archives disappear from the landing area."""

import json
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.job import JobSettings, run_job
from ingest.load import Loaded
from ingest.progress import Progress
from ingest.totals import read_totals
from protocol.archive.random_access import open_archive
from testbed.oracle.ledger import ledger_of, read_summary
from tests.support.collector_process import HEADGATE, collector_process, make_state
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent

RUNS = 3
SHIPPING = """
[archive]
every_s = 0.6
[ship]
url = "{url}"
collector_key = "{key}"
check_every_s = 0.1
"""


def _headgate(*arguments: str, exit_code: int = 0) -> str:
    done = subprocess.run([*HEADGATE, *arguments], capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == exit_code, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a collector has of an agent that was started three times."""
    root = tmp_path_factory.mktemp("withheld")
    public = make_state(root)
    key = root / "collector.pub"
    key.write_text(bytes(public.signing).hex())
    with collector_process(root) as collector:
        agent = Agent.make(root / "device", extra=SHIPPING.format(url=collector.url, key=key))
        exported = root / "device.json"
        exported.write_text(_headgate("keys", "export-public", "--keys", str(agent.key_file)))
        _headgate("collector", "enrol", str(exported), "--state", str(root / "state"))
        for _ in range(RUNS):
            with agent.start("--once", "--seconds", "0.8") as process:
                assert process.wait(PATIENCE_S) == 0, agent.log()
    return root / "landing"


def _archives(landing: Path) -> dict[Path, int]:
    """The archives with the number of readings in each."""
    found = {}
    for path in sorted(landing.glob("*.hga")):
        data = path.read_bytes()
        archive = open_archive(lambda offset, count, data=data: data[offset : offset + count], len(data))  # type: ignore[misc]
        found[path] = archive.manifest.readings
    return found


def test_every_subset_of_archives_gives_the_true_totals(landing: Path) -> None:
    archives = _archives(landing)
    assert len(archives) >= RUNS
    summaries = {path: read_summary(path, {}) for path in archives}
    whole = ledger_of(summaries.values(), landing).totals
    assert whole.complete
    assert (whole.missing, whole.ingested) == (0, sum(archives.values()))
    for count in range(len(archives) + 1):
        for withheld in combinations(archives, count):
            there = [summary for path, summary in summaries.items() if path not in withheld]
            totals = ledger_of(there, landing).totals
            missing = sum(archives[path] for path in withheld)
            assert (totals.missing, totals.ingested) == (missing, whole.ingested - missing)
            assert (totals.produced, totals.on_device) == (whole.produced, whole.on_device)
            assert (totals.lost_explained, totals.lost_unexplained) == (0, 0)
            assert totals.complete == (not missing)


def test_what_comes_while_the_ingest_runs_is_not_missing(landing: Path, spark: SparkSession, tmp_path: Path) -> None:
    there, tables = tmp_path / "landing", tmp_path / "tables"
    there.mkdir()
    *early, late = sorted(_archives(landing), key=lambda path: path.stat().st_mtime_ns)
    for path in early:
        shutil.copy2(path, there)

    class Arrivals(Progress):
        def reach(self, loaded: Loaded) -> None:
            super().reach(loaded)
            for path in (late, *landing.glob("*.checkpoint")):
                shutil.copy2(path, there)

    settings = JobSettings(landing=there, tables=tables, batch_archives=1)
    run_job(spark, settings, Arrivals(quiet=True))
    assert (read_totals(tables).missing, read_totals(tables).complete) == (0, True)
    run_job(spark, settings)
    assert read_totals(tables).ingested == sum(_archives(landing).values())


def test_an_ingest_without_two_archives_says_how_many_readings_are_missing(landing: Path, tmp_path: Path) -> None:
    archives = _archives(landing)
    withheld = list(archives)[:2]
    for path in landing.iterdir():
        if path not in withheld and path.is_file():
            (tmp_path / "landing").mkdir(exist_ok=True)
            (tmp_path / "landing" / path.name).write_bytes(path.read_bytes())
    where = ("--landing", str(tmp_path / "landing"), "--tables", str(tmp_path / "tables"))
    printed = _headgate("ingest", "run", *where, "--quiet", "--json", exit_code=1)
    totals = json.loads(printed)["totals"]
    assert totals["missing"] == sum(archives[path] for path in withheld)
    assert totals["ingested"] == sum(archives.values()) - totals["missing"]
    assert totals["complete"] is False
    gaps = _headgate("ingest", "gaps", "--tables", str(tmp_path / "tables"))
    assert "archive missing" in gaps
    for path in withheld:
        (tmp_path / "landing" / path.name).write_bytes(path.read_bytes())
    totals = json.loads(_headgate("ingest", "run", *where, "--quiet", "--json"))["totals"]
    assert (totals["missing"], totals["complete"]) == (0, True)
