"""Disks that fill, files that vanish, notes that are cut short, operators who press Ctrl-C: one line, and no loss."""

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.collector.devices import AllowList, Device
from ingest.errors import IngestError
from ingest.facts import collect_facts
from ingest.job import JobSettings, run_job
from ingest.load import Loaded
from ingest.plain_values import collect_rows
from ingest.progress import Progress
from ingest.query import run_query
from tests.support.corpus_scenario import DEVICES, ONE, everything, land
from tests.support.corpus_truth import Landed
from tests.support.lake_tables import read_all, read_parquet
from tests.support.patience import PATIENCE_S
from tests.support.spark_processes import ROOT, await_line, environment, run_arguments, start_run

pytestmark = pytest.mark.slow

QUIET = Progress(quiet=True)


@pytest.fixture(scope="module")
def landed() -> list[Landed]:
    """Archives of device one, which are whole."""
    return everything()[0].landed[:2]


def job_in(folder: Path, landed: list[Landed]) -> JobSettings:
    land(folder / "landing", landed)
    return JobSettings(
        landing=folder / "landing", tables=folder / "tables", decode=DecodeSettings(devices=DEVICES), batch_archives=1
    )


def test_a_run_says_what_went_wrong_in_its_own_words_and_the_next_one_goes_on(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_in(tmp_path, landed)

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ingest.store.Store.commit", full_disk)
        with pytest.raises(OSError, match="No space left"):
            run_job(spark, job, QUIET)
    run_job(spark, job, QUIET)
    assert len(read_parquet(job.tables, "messages")) == sum(len(each.filed) for each in landed)


@pytest.mark.parametrize("gone", [1, 2])
def test_files_that_were_ingested_may_go_while_the_run_that_took_them_is_dead(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], gone: int
) -> None:
    job = replace(job_in(tmp_path, landed), batch_archives=2)
    run_job(spark, job, QUIET)
    before = read_all(job.tables)
    last = max((job.tables / "_headgate" / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if it had died between its commit and Spark's note of it
    for path in sorted(job.landing.iterdir())[:gone]:
        path.unlink()
    run_job(spark, job, QUIET)
    assert read_all(job.tables) == before


@pytest.mark.parametrize("part", ["offsets", "commits", "sources/0"])
def test_notes_of_spark_that_a_power_cut_cut_short_cost_a_second_look(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], part: str
) -> None:
    job = job_in(tmp_path, landed)
    run_job(spark, job, QUIET)
    before = read_all(job.tables)
    for note in (job.tables / "_headgate" / "checkpoint" / part).iterdir():
        note.unlink() if note.suffix == ".crc" else note.write_bytes(b"")
    run_job(spark, job, QUIET)
    assert read_all(job.tables) == before


def test_a_device_that_is_enrolled_while_a_run_goes_on_is_taken_from_then_on(
    spark: SparkSession, tmp_path: Path, landed: list[Landed]
) -> None:
    devices = AllowList(tmp_path / "devices")

    class Enrolling(Progress):
        def reach(self, loaded: Loaded) -> None:
            super().reach(loaded)
            devices.enrol(Device(address=bytes.fromhex(ONE.address[2:]), enrolled_at_ms=0))

    land(tmp_path / "landing", landed)
    job = JobSettings(
        landing=tmp_path / "landing", tables=tmp_path / "tables", devices_folder=tmp_path / "devices", batch_archives=1
    )
    run_job(spark, job, Enrolling(quiet=True))
    verdicts = sorted(row["verdict"] for row in read_parquet(job.tables, "archives"))
    assert verdicts == ["device unknown", "verified"]


def test_times_are_utc_wherever_the_operator_is(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_in(tmp_path, landed[:1])
    run_job(spark, job, QUIET)
    sql = "SELECT min(event_time), date_format(min(event_time), \"yyyy-MM-dd'T'HH:mm:ss\") FROM messages"
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        (row,) = run_query(spark, job.tables, sql, 10).values
        facts = collect_facts(spark, job.tables)
    time.tzset()
    assert row[0].isoformat() == row[1]
    assert facts["totals"]["first"] == row[0]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 1/0", "DIVIDE_BY_ZERO"),
        ("SELECT cast('x' AS int)", "CAST_INVALID_INPUT"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
        (" ", "no SQL"),
        ("SELECT timestamp_seconds(300000000000)", "cannot be shown"),
    ],
)
def test_sql_that_has_no_answer_is_reported_in_one_line(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], sql: str, words: str
) -> None:
    run_job(spark, job_in(tmp_path, landed[:1]), QUIET)
    with pytest.raises(IngestError, match=words) as reported:
        run_query(spark, tmp_path / "tables", sql, 10)
    assert "\n" not in str(reported.value)


def test_a_question_is_asked_again_where_a_run_replaced_what_it_was_about(
    spark: SparkSession, tmp_path: Path, landed: list[Landed], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_in(tmp_path, landed[:1])
    run_job(spark, job, QUIET)
    land(job.landing, landed[1:])
    questions: list[DataFrame] = []

    def meanwhile(frame: DataFrame) -> list[list[Any]]:
        if not questions:
            run_job(spark, job, QUIET)
        questions.append(frame)
        return collect_rows(frame)

    monkeypatch.setattr("ingest.query.collect_rows", meanwhile)
    rows = run_query(spark, job.tables, "SELECT sum(ingested) FROM ledger", 10)
    assert rows.values == [[sum(len(each.filed) for each in landed)]]
    assert len(questions) == 2


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agent", "ingest", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_spark_that_does_not_start_says_why_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    log = tmp_path / "spark.log"
    places = ["--landing", str(tmp_path / "landing"), "--tables", str(tmp_path / "tables"), "--spark-log", str(log)]
    done = run_command("run", *places, "--master", "nonsense")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (69, "", 1), done.stderr
    assert "Spark did not start" in done.stderr
    assert "Master must" in done.stderr
    assert "\tat org.apache.spark" in log.read_text()


def test_a_run_that_is_interrupted_ends_at_once_without_a_word(tmp_path: Path, landed: list[Landed]) -> None:
    land(tmp_path / "landing", landed)
    with start_run(run_arguments(tmp_path)) as process:
        await_line(process, "archives to look at")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Java and to every worker too
        out, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert [line for line in said.splitlines() if "archives" not in line] == []


def test_tables_of_an_older_release_are_read_and_grow(
    spark: SparkSession, tmp_path: Path, landed: list[Landed]
) -> None:
    job = job_in(tmp_path, landed[:1])
    run_job(spark, job, QUIET)
    for path in (job.tables / "archives").iterdir():
        pq.write_table(pq.ParquetFile(path).read().drop_columns(["locked"]), path)
    land(job.landing, landed[1:])
    run_job(spark, job, QUIET)
    rows = run_query(spark, job.tables, "SELECT locked, verdict FROM archives", 10).values
    assert rows == [[None, "verified"], [None, "verified"]]
