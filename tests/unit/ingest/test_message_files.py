from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import message_files
from ingest.archive_rows import MESSAGE_SCHEMA
from ingest.message_files import MessageFiles


def batch(*moments: str) -> pa.RecordBatch:
    rows = [{"record": number, "event_time": datetime.fromisoformat(each)} for number, each in enumerate(moments)]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def rows_by_date(names: list[str]) -> Counter[str]:
    return Counter({Path(name).parent.name: pq.ParquetFile(name).metadata.num_rows for name in names})


def test_each_date_has_its_own_file(tmp_path: Path) -> None:
    files = MessageFiles(tmp_path)
    files.take(batch("2026-01-01T23:59:59.999", "2026-01-02T00:00:00", "1970-01-01T00:00:01"))
    files.take(batch("2026-01-02T12:00:00"))
    assert rows_by_date(files.finish()) == {"date=2026-01-01": 1, "date=2026-01-02": 2, "date=1970-01-01": 1}


def test_nothing_leaves_no_file(tmp_path: Path) -> None:
    assert MessageFiles(tmp_path).finish() == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_files, "MAX_ROWS_PER_FILE", 4)
    monkeypatch.setattr(message_files, "MAX_ROWS_WAITING", 1)
    files = MessageFiles(tmp_path)
    for _ in range(3):
        files.take(batch("2026-01-01T00:00:00", "2026-01-01T00:00:01"))
    assert [pq.ParquetFile(name).metadata.num_rows for name in files.finish()] == [4, 2]
