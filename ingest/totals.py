"""The totals of all devices, in readings: what became of everything that was produced.

    produced = ingested + quarantined + lost_explained + lost_unexplained + missing + on_device
    archived = ingested + duplicate + quarantined

They are added up from the small tables `ledger`, `logs` and `gaps`, so anyone can do it again in SQL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.log_ledger import ARCHIVE_MISSING
from ingest.query import ask
from ingest.small_tables import OPEN
from ingest.store import files_of_all

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    produced: int
    archived: int
    ingested: int
    duplicate: int
    quarantined: int
    lost_explained: int
    lost_unexplained: int
    missing: int  # in archives that should have arrived
    on_device: int
    complete: bool  # nothing is missing, unexplained or contradictory

    def as_dict(self) -> dict[str, int | bool]:
        return asdict(self)

    def as_line(self) -> str:
        counted = {name: value for name, value in asdict(self).items() if name != "complete"}
        figures = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in counted.items())
        return f"{'complete' if self.complete else 'NOT COMPLETE'} (readings): {figures}"


def read_totals(tables: Path) -> Totals:
    """Of the last commit. Raises: IngestError where there are no tables."""
    return ask(tables, lambda: add_up(**_read_rows(tables)))


def add_up(ledger: Rows, logs: Rows, gaps: Rows) -> Totals:
    kept = {name: _sum(ledger, name) for name in ("archived", "ingested", "duplicate", "quarantined")}
    gone = {
        "lost_explained": _sum(logs, "lost_explained"),
        "lost_unexplained": max(_sum(logs, "lost_unexplained"), _unexplained_in_chains(gaps)),
        "missing": _sum(logs, "missing"),
        "on_device": _sum(logs, "on_device"),
    }
    return Totals(
        produced=kept["ingested"] + kept["quarantined"] + sum(gone.values()),
        **kept,
        **gone,
        complete=not (gone["missing"] or gone["lost_unexplained"])
        and all(row["balanced"] for row in ledger)
        and all(row["complete"] for row in logs),
    )


def _read_rows(tables: Path) -> dict[str, Rows]:
    files = files_of_all(tables)
    return {
        table: [row for path in files[table] for row in pq.read_table(path).to_pylist()]
        for table in ("ledger", "logs", "gaps")
    }


def _sum(rows: Iterable[Mapping[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def _unexplained_in_chains(gaps: Rows) -> int:
    """What chains lack although no archive is missing where it should be."""
    is_open = (row for row in gaps if row["state"] == OPEN and row["log"] is None)
    return sum(_unexplained(row) for row in is_open if ARCHIVE_MISSING not in (row["cause"] or ""))


def _unexplained(row: Mapping[str, Any]) -> int:
    """At least one reading is missing in a gap of which nothing is known."""
    if row["missing"] is None:
        return 0 if row["explained"] or row["held"] else 1
    return max(0, int(row["missing"] - row["explained"] - row["held"]))
