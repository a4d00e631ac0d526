"""Gaps, ledger and archives: small tables, laid out on the driver from what it knows."""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.account import Account, Gap
from ingest.decoded import LATEST_MS, MAX_INTEGER
from ingest.log_ledger import make_log_ledger
from ingest.schemas import TABLES
from ingest.spans import Ref
from ingest.summary import ArchiveSummary

OPEN, CLOSED = "open", "closed"


def gap_rows(gaps: Iterable[Gap], state: str) -> list[dict[str, Any]]:
    return [_gap_row(gap, state) for gap in gaps]


def closed_gaps(before: Iterable[Gap], now: Iterable[Gap]) -> list[Gap]:
    """The gaps of which nothing is missing any more. One that was filled in part lives on as what is left of it."""
    still_open: dict[tuple[str, str], list[Gap]] = {}
    for gap in now:
        still_open.setdefault(gap.name, []).append(gap)
    return [gap for gap in before if not _overlaps(gap, still_open.get(gap.name, []))]


def _overlaps(gap: Gap, in_order: list[Gap]) -> bool:
    """Whether one of these gaps of its chain has something in common with it; they have nothing with each other."""
    index = bisect_right(in_order, _start(gap), key=lambda each: each.hole.before)
    return index < len(in_order) and _start(in_order[index]) < gap.hole.before


def _start(gap: Gap) -> Ref:
    return (-1, 0) if gap.hole.after is None else gap.hole.after


def _gap_row(gap: Gap, state: str) -> dict[str, Any]:
    hole = gap.hole
    after = hole.after or (None, None)
    return {
        "device": gap.name.device,
        "chain": gap.name.chain,
        "after_timestamp_ms": after[0],
        "after_sequence": after[1],
        "last_timestamp_ms": hole.last[0],
        "last_sequence": hole.last[1],
        "before_timestamp_ms": hole.before[0],
        "before_sequence": hole.before[1],
        "missing": hole.missing,
        "explained": min(gap.explained, MAX_INTEGER),  # a device may say any number
        "held": gap.held,
        "cause": gap.cause,
        "state": state,
        "log": None,
    }


def ledger_rows(account: Account) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables that follow from the account alone: gaps that are open, ledger and logs."""
    logs = make_log_ledger(account.logs, account.losses)
    return {
        "gaps": gap_rows(account.gaps(), OPEN) + [{**gap, "state": OPEN} for gap in logs.gaps],
        "ledger": account.ledger(),
        "logs": [{**row, "checkpoint_at": _device_time(row["checkpoint_ms"])} for row in logs.rows],
    }


def archive_rows(summaries: Iterable[ArchiveSummary]) -> list[dict[str, Any]]:
    return [
        {
            "archive": summary.archive,
            "path": summary.path,
            "device": summary.device,
            "journal": summary.journal,
            "created_at": _device_time(summary.created_at_ms),
            "landed_at": _time(summary.landed_at_ms),
            "size_bytes": summary.size_bytes,
            "records": summary.records,
            "readings": summary.readings,
            "verdict": summary.verdict,
            "locked": summary.locked and summary.locked.to_json(),
        }
        for summary in summaries
    ]


def _device_time(milliseconds: int | None) -> datetime | None:
    """By a clock that may show anything; what no calendar holds is null."""
    return None if milliseconds is None or milliseconds > LATEST_MS else _time(milliseconds)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def write_rows(table: str, rows: list[dict[str, Any]], path: Path) -> Path:
    """One Parquet file of these rows, with the table's columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, to_arrow_schema(TABLES[table], timezone="UTC")), path)
    return path
