"""The corpus in which everything happens, through the whole job: the tables say what is true, row for row."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.job import JobSettings, run_job
from ingest.progress import Progress
from tests.support.corpus_scenario import DECRYPTION_KEY, DEVICES, GROUP_KEYS, everything, land
from tests.support.corpus_truth import Truth
from tests.support.lake_tables import assert_tables_are_true, read_all

pytestmark = pytest.mark.slow

DECODE = DecodeSettings(devices=DEVICES, group_keys=GROUP_KEYS, decryption_key=bytes(DECRYPTION_KEY))


def settings(folder: Path, **others: object) -> JobSettings:
    return JobSettings(landing=folder / "landing", tables=folder / "tables", decode=DECODE, **others)  # type: ignore[arg-type]


def ingest(spark: SparkSession, job: JobSettings) -> None:
    run_job(spark, job, Progress(quiet=True))


@pytest.fixture(scope="module")
def truths() -> tuple[Truth, Truth]:
    return everything()


def test_tables_equal_the_truth_after_each_of_two_deliveries(
    spark: SparkSession, tmp_path: Path, truths: tuple[Truth, Truth]
) -> None:
    first, both = truths
    job = settings(tmp_path)
    land(job.landing, first.landed)
    ingest(spark, job)
    assert_tables_are_true(read_all(job.tables), first, [])
    land(job.landing, both.landed[len(first.landed) :], at_s=1_793_000_000)
    ingest(spark, job)
    filled = [gap for gap in first.gaps() if gap not in both.gaps()]
    assert [gap["missing"] for gap in filled] == [10, 10]
    assert_tables_are_true(read_all(job.tables), both, filled)
    before = read_all(job.tables)
    ingest(spark, settings(tmp_path, again=True))  # as if the checkpoint had been lost
    assert read_all(job.tables) == before
