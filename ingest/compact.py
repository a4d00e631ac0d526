"""Join the small files that many small commits leave. What the tables say stays the same, row for row."""

from pathlib import Path

from ingest.load import ORDER, read_files, write_files
from ingest.session import open_session
from ingest.store import Change, Store, StoredFile

__all__ = ["compact_tables"]

COMPACTED = ("messages", "quarantine", "archives")  # each commit writes the others anew
ORDERS = {"messages": ORDER, "quarantine": ("archive", "record"), "archives": ("archive",)}


def compact_tables(tables: Path, min_files: int, master: str | None, options: dict[str, str]) -> tuple[int, int]:
    """How many files there were and how many there are. Raises: IngestBusy while a run writes the tables."""
    with Store(tables) as store:
        work = {table: _crowded(store, table, min_files) for table in COMPACTED}
        before = sum(len(store.files(table)) for table in COMPACTED)
        if any(work.values()):
            spark = open_session(master, {"spark.ui.showConsoleProgress": "false", **options})
            try:
                changes = {}
                for table, files in work.items():
                    if files:
                        rows = read_files(spark, store, table, files).coalesce(1)
                        written = write_files(store, table, rows.sortWithinPartitions(*ORDERS[table]))
                        changes[table] = Change(written, files)
                store.commit(store.account(), changes)
            finally:
                spark.stop()
        return before, sum(len(store.files(table)) for table in COMPACTED)


def _crowded(store: Store, table: str, min_files: int) -> list[StoredFile]:
    """The files that share their date with enough others."""
    by_date: dict[str | None, list[StoredFile]] = {}
    for file in store.files(table):
        by_date.setdefault(file.date, []).append(file)
    return [file for files in by_date.values() if len(files) >= max(2, min_files) for file in files]
