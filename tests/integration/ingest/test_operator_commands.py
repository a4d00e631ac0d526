"""What an operator does with finished tables: report, query, gaps, compaction; and the same tables as Delta."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from agent.cli import main
from ingest.archive_rows import DecodeSettings
from ingest.compact import compact_tables
from ingest.errors import IngestBusy, IngestError
from ingest.facts import collect_facts
from ingest.job import JobSettings, run_job
from ingest.progress import Progress
from ingest.query import run_query
from ingest.report import render_page
from ingest.store import Store
from tests.support.corpus_scenario import DECRYPTION_KEY, DEVICES, GROUP_KEYS, everything, land
from tests.support.corpus_truth import Truth
from tests.support.lake_tables import NAMES, assert_tables_are_true, read_all

pytestmark = pytest.mark.slow

DECODE = DecodeSettings(devices=DEVICES, group_keys=GROUP_KEYS, decryption_key=bytes(DECRYPTION_KEY))


@pytest.fixture(scope="module")
def truth() -> Truth:
    return everything()[1]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the corpus in three batches, as Delta tables."""
    folder = tmp_path_factory.mktemp("operator")
    land(folder / "landing", truth.landed)
    job = JobSettings(
        landing=folder / "landing", tables=folder / "tables", table_format="delta", decode=DECODE, batch_archives=8
    )
    run_job(spark, job, Progress(quiet=True))
    return folder / "tables"


def read_delta(folder: Path, name: str) -> list[dict[str, Any]]:
    """By delta-rs alone."""
    rows = QueryBuilder().register("t", DeltaTable(str(folder / name))).execute("SELECT * FROM t").read_all()
    return [
        {key: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for key, value in row.items()}
        for row in pa.table(rows).to_pylist()
    ]


def without_closed_gaps(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Which gaps were open for a while depends on how the archives were batched."""
    return {**rows, "gaps": [row for row in rows["gaps"] if row["state"] == "open"]}


def test_an_independent_reader_finds_the_truth_in_the_delta_tables(tables: Path, truth: Truth) -> None:
    found = {name: read_delta(tables, name) for name in NAMES}
    assert_tables_are_true(without_closed_gaps(found), truth, [])


def test_the_report_is_one_page_that_needs_nothing_else(spark: SparkSession, tables: Path, truth: Truth) -> None:
    facts = collect_facts(spark, tables)
    rows = truth.ledger().values()
    for name in ("archived", "ingested", "duplicate", "quarantined", "lost_unexplained"):
        assert facts["totals"][name] == sum(row[name] for row in rows), name
    assert not facts["balanced"], "some messages are lost, unexplained"
    assert sum(row["readings"] for row in facts["devices"]) == len(truth.messages())
    assert {row["reason"]: row["rows"] for row in facts["quarantine"]}["signature forged"] == 2
    assert sum(each["readings"] for each in facts["latency_histogram"]) == facts["totals"]["readings"]
    json.dumps(facts, default=str)
    page = render_page(facts)
    seen = _Tags()
    seen.feed(page)
    assert seen.open == []
    assert {"svg", "table", "polyline", "rect"} <= seen.names
    assert not {"script", "link", "img", "iframe"} & seen.names
    assert "http" not in page.replace("http-equiv", "")
    for device in facts["devices"]:
        assert device["device"] in page


class _Tags(HTMLParser):
    VOID = frozenset({"meta", "line", "rect", "polygon", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.names.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.names.add(tag)


def test_the_tables_are_views_for_sql(spark: SparkSession, tables: Path, truth: Truth) -> None:
    rows = run_query(spark, tables, "SELECT count(*) AS n, max(hash) AS h FROM messages", 10)
    assert rows.values[0][0] == len(truth.messages())
    assert json.loads(rows.as_json_lines()[0])["n"] == len(truth.messages())
    assert rows.as_table()[0].split() == ["n", "h"]
    with pytest.raises(IngestError, match="nowhere"):
        run_query(spark, tables, "SELECT * FROM nowhere", 10)


def test_gaps_are_listed_and_their_resend_ranges_printed(
    tables: Path, truth: Truth, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", "gaps", "--tables", str(tables)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(truth.gaps())
    assert main(["ingest", "gaps", "--tables", str(tables), "--request"]) == 0
    requests = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_chain = {(each["publisherId"], each["streamId"].split("/")[1]): each for each in requests}
    shed = next(gap for gap in truth.gaps() if gap["cause"] == "thinned")
    request = by_chain[shed["device"], "pump"]
    assert request["fromMsgRef"] == {"timestamp": shed["after_timestamp_ms"], "sequenceNumber": 1}
    assert request["toMsgRef"] == {"timestamp": shed["last_timestamp_ms"], "sequenceNumber": shed["last_sequence"]}


def test_compaction_leaves_fewer_files_and_the_same_rows(spark: SparkSession, tables: Path, truth: Truth) -> None:
    before, after = compact_tables(spark, tables)
    assert after < before
    found = {name: read_delta(tables, name) for name in NAMES}
    assert_tables_are_true(without_closed_gaps(found), truth, [])
    assert compact_tables(spark, tables) == (after, after)


def test_parquet_tables_are_compacted_too_and_ingest_goes_on(spark: SparkSession, tmp_path: Path, truth: Truth) -> None:
    job = JobSettings(landing=tmp_path / "landing", tables=tmp_path / "tables", decode=DECODE, batch_archives=12)
    half = len(truth.landed) - 3
    land(job.landing, truth.landed[:half])
    run_job(spark, job, Progress(quiet=True))
    before, after = compact_tables(spark, job.tables)
    assert after < before
    land(job.landing, truth.landed[half:], at_s=1_793_000_000)
    run_job(spark, job, Progress(quiet=True))
    assert_tables_are_true(without_closed_gaps(read_all(job.tables)), truth, [])


def test_a_run_refuses_tables_that_another_run_writes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    with Store(tmp_path / "tables"), pytest.raises(IngestBusy):
        run_job(spark, JobSettings(landing=tmp_path / "landing", tables=tmp_path / "tables"), Progress(quiet=True))
