"""Read tables back, without the ingest's own code, and hold them against the truth of a corpus."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from tests.support.corpus_truth import Truth

NAMES = ("messages", "quarantine", "gaps", "rollups", "ledger", "archives", "logs")
GAPS_OF_LOGS = ("log", "lane", "first_position", "next_position")
NOT_IN_TRUTH = ("archive", "record", "landed_at", "link")

QUARANTINE = ("archive", "record", "records", "readings", "reason")

Rows = list[dict[str, Any]]


def read_parquet(tables: Path, name: str) -> Rows:
    """By the files of the folder alone, as any reader of Parquet would."""
    partitioning = ds.partitioning(flavor="hive") if name in ("messages", "rollups") else None
    files = sorted(str(path) for path in (tables / name).rglob("*.parquet"))
    if not files:
        return []
    dataset = ds.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=str(tables / name))
    return [_without_zones(row) for row in dataset.to_table().to_pylist()]


def read_all(tables: Path) -> dict[str, Rows]:
    """Every table in one order, to compare two runs."""
    return {name: sorted(read_parquet(tables, name), key=repr) for name in NAMES}


def _without_zones(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value
        for name, value in row.items()
    }


def assert_tables_are_true(tables: dict[str, Rows], truth: Truth, closed_gaps: list[dict[str, Any]]) -> None:
    assert_messages_are_true(tables["messages"], truth)
    found = Counter(tuple(row[name] for name in QUARANTINE) for row in tables["quarantine"])
    assert_same(dict(found), dict(truth.quarantine()))
    in_chains = [_without_log(row) for row in tables["gaps"] if row["log"] is None]
    gaps = [{**gap, "state": "open"} for gap in truth.gaps()] + [{**gap, "state": "closed"} for gap in closed_gaps]
    assert_same(dict(enumerate(sorted(in_chains, key=repr))), dict(enumerate(sorted(gaps, key=repr))))
    assert_rollups_are_true(tables["rollups"], truth)
    archives = Counter((row["archive"], row["verdict"]) for row in tables["archives"])
    assert_same(dict(archives), dict(truth.archives()))
    ledger = {(row.pop("device"), row.pop("chain")): row for row in [dict(row) for row in tables["ledger"]]}
    assert_same(ledger, {name: {**row, "broken_links": 0} for name, row in truth.ledger().items()})


def _without_log(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in GAPS_OF_LOGS}


def assert_messages_are_true(rows: Rows, truth: Truth) -> None:
    expected, places = truth.messages(), truth.places()
    found = {}
    for row in rows:
        message = (row["device"], row["chain"], row["timestamp_ms"], row["sequence"])
        key = (*message, row["reading"])
        assert key not in found, f"{key} is there twice"
        assert (row["archive"], row["record"]) in places[message]
        found[key] = {name: value for name, value in row.items() if name not in NOT_IN_TRUTH}
        found[key]["date"] = str(found[key]["date"])
    assert_same(found, {key: {**row, "date": str(row["date"])} for key, row in expected.items()})


def assert_rollups_are_true(rows: Rows, truth: Truth) -> None:
    found = {}
    for row in rows:
        key = tuple(row[name] for name in ("device", "sensor", "quantity", "unit", "minute"))
        assert key not in found, f"{key} is there twice"
        found[key] = {name: row[name] for name in ("count", "min", "max", "sum", "mean", "last", "last_time")}
        found[key]["date"] = str(row["date"])
    assert_same(found, {key: {**row, "date": str(row["date"])} for key, row in truth.rollups().items()})


def assert_same(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    assert found.keys() == expected.keys(), f"unexpected {found.keys() - expected}, missing {expected.keys() - found}"
    for key, row in expected.items():
        assert found[key] == row, f"{key}: found {found[key]}, expected {row}"
