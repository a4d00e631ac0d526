"""Messages → Parquet files, one per date, written where they are decoded.

Nearly all that an archive holds are messages that are ready for their table. Handing every one of them to the JVM only
for it to write them down costs more than decoding them, so the decoder writes them itself, beside the tables, and tells
Spark the names. A file counts only if its task succeeds and a commit moves it in; what a dead task left is cleared.
"""

import uuid
from datetime import date
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.archive_rows import MESSAGE_SCHEMA

MAX_ROWS_PER_FILE: Final = 500_000
MAX_ROWS_WAITING: Final = 100_000  # of all dates together; then they are written


class MessageFiles:
    """The files of one task. Give it batches, and take the names at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[date, list[pa.RecordBatch]] = {}
        self._rows_waiting = 0
        self._writers: dict[date, pq.ParquetWriter] = {}
        self._rows: dict[date, int] = {}
        self._names: list[str] = []

    def take(self, messages: pa.RecordBatch) -> None:
        days = messages.column("event_time").cast(pa.timestamp("us")).cast(pa.date32())
        for day in pc.unique(days).to_pylist():
            of_day = messages if len(pc.unique(days)) == 1 else messages.filter(pc.equal(days, pa.scalar(day)))
            self._waiting.setdefault(day, []).append(of_day)
        self._rows_waiting += messages.num_rows
        if self._rows_waiting >= MAX_ROWS_WAITING:
            self._write()

    def finish(self) -> list[str]:
        """Close the files: their paths."""
        self._write()
        for writer in self._writers.values():
            writer.close()
        return self._names

    def _write(self) -> None:
        for day, batches in sorted(self._waiting.items()):
            rows = pa.Table.from_batches(batches)
            self._writer(day, rows.num_rows).write_table(rows)
        self._waiting.clear()
        self._rows_waiting = 0

    def _writer(self, day: date, rows: int) -> pq.ParquetWriter:
        """The date's file, a new one where it would grow too long."""
        self._rows[day] = self._rows.get(day, 0) + rows
        if day in self._writers and self._rows[day] > MAX_ROWS_PER_FILE:
            self._writers.pop(day).close()
            self._rows[day] = rows
        if day not in self._writers:
            path = self._folder / f"date={day.isoformat()}" / f"part-{uuid.uuid4().hex}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._names.append(str(path))
            self._writers[day] = pq.ParquetWriter(path, MESSAGE_SCHEMA)
        return self._writers[day]
