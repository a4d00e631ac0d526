from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql.types import StructType

from ingest.delta import commit_delta, delta_files
from ingest.schemas import ARCHIVES, TABLES
from ingest.small_tables import write_rows


def commit(folder: Path, number: int, **row: object) -> None:
    name = f"{number}.parquet"
    write_rows("archives", [{"archive": str(number), **row}], folder / name)
    commit_delta(folder, [name], [], number)


def read(folder: Path) -> list[tuple[str, str | None]]:
    """By delta-rs alone."""
    rows = QueryBuilder().register("t", DeltaTable(str(folder))).execute("SELECT archive, locked FROM t").read_all()
    return sorted((row["archive"], row["locked"]) for row in pa.table(rows).to_pylist())


def test_a_commit_that_is_made_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        commit(tmp_path / "archives", 1)
    assert [file.name for file in delta_files(tmp_path / "archives")] == ["1.parquet"]


def test_a_table_of_an_older_release_gets_the_columns_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setitem(TABLES, "archives", StructType([each for each in ARCHIVES if each.name != "locked"]))
        commit(tmp_path / "archives", 1)
    commit(tmp_path / "archives", 2, locked="keys")
    commit(tmp_path / "archives", 3)
    assert read(tmp_path / "archives") == [("1", None), ("2", "keys"), ("3", None)]
