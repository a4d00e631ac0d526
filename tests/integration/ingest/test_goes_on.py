"""`--every`: a run that goes on, takes archives as they arrive, and ends when it is asked to."""

import json
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.job import JobSettings, run_job
from ingest.progress import Progress
from tests.support.corpus_scenario import DECRYPTION_KEY, DEVICES, GROUP_KEYS, everything, land
from tests.support.corpus_truth import Truth
from tests.support.lake_tables import assert_messages_are_true, read_all, read_parquet
from tests.support.patience import PATIENCE_S
from tests.support.spark_processes import (
    INCOMPLETE,
    await_end_of_all,
    await_line,
    operator_files,
    run_arguments,
    start_run,
)

pytestmark = pytest.mark.slow


def test_archives_are_loaded_as_they_arrive_until_the_run_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    landed = everything()[0].landed[:6]
    land(tmp_path / "landing", landed[:2])
    report = ["--report", str(tmp_path / "report.html"), "--json"]
    with start_run(run_arguments(tmp_path, *operator_files(tmp_path), "--every", "0.2", *report)) as process:
        await_line(process, "2 archives, ")
        before = len(read_parquet(tmp_path / "tables", "messages"))
        land(tmp_path / "landing", landed[2:4], at_s=1_791_000_000)
        land(tmp_path / "landing", landed[4:], at_s=1_792_000_000)
        await_line(process, "6 archives, ")
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == INCOMPLETE, said[-3000:]
        assert "done: 6 archives" in said
        await_end_of_all(process.pid)
    rows = read_parquet(tmp_path / "tables", "messages")
    assert len(rows) > before > 0
    assert_messages_are_true(rows, Truth(landed))
    facts = json.loads(out)
    assert not facts["totals"]["complete"]
    assert facts["totals"]["ingested"] == len(rows)
    assert (tmp_path / "report.html").stat().st_size > 0
    tables = read_all(tmp_path / "tables")
    decode = DecodeSettings(devices=DEVICES, group_keys=GROUP_KEYS, decryption_key=bytes(DECRYPTION_KEY))
    job = JobSettings(landing=tmp_path / "landing", tables=tmp_path / "tables", decode=decode, again=True)
    run_job(spark, job, Progress(quiet=True))
    assert read_all(tmp_path / "tables") == tables
