"""Join the small files that many small commits leave. What the tables say stays the same, row for row."""

from pathlib import Path

from pyspark.sql import SparkSession

from ingest.load import ORDER, read_files, write_files
from ingest.store import Change, Store, StoredFile

COMPACTED = ("messages", "quarantine", "archives")  # each commit writes the others anew
ORDERS = {"messages": ORDER, "quarantine": ("archive", "record"), "archives": ("archive",)}


def compact_tables(spark: SparkSession, tables: Path, min_files: int = 2) -> tuple[int, int]:
    """How many files there were and how many there are. Raises: IngestBusy while a run writes the tables."""
    with Store(tables) as store:
        before = _count_files(store)
        crowded = {table: _crowded(store, table, min_files) for table in COMPACTED}
        changes = {
            table: Change(_rewrite(spark, store, table, files), files) for table, files in crowded.items() if files
        }
        if changes:
            store.commit(store.account(), changes)
        return before, _count_files(store)


def _rewrite(spark: SparkSession, store: Store, table: str, files: list[StoredFile]) -> list[Path]:
    rows = read_files(spark, store, table, files).coalesce(1)
    return write_files(store, table, rows.sortWithinPartitions(*ORDERS[table]))[1]


def _count_files(store: Store) -> int:
    return sum(len(store.files(table)) for table in COMPACTED)


def _crowded(store: Store, table: str, min_files: int) -> list[StoredFile]:
    """The files that share their date with enough others."""
    by_date: dict[str | None, list[StoredFile]] = {}
    for file in store.files(table):
        by_date.setdefault(file.date, []).append(file)
    return [file for files in by_date.values() if len(files) >= max(2, min_files) for file in files]
