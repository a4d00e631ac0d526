"""Tables as Delta tables, without a jar: Spark writes the Parquet files, the `deltalake` library the transaction log.

Each commit of ours is one transaction of each table it changes, marked with the commit's number. A commit that is made
again after a crash finds its mark and changes nothing.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.schemas import PARTITIONED, TABLES
from ingest.store import DATE_PREFIX, StoredFile

APPLICATION: Final = "headgate-ingest"


def delta_files(folder: Path, dates: Iterable[str] | None = None) -> list[StoredFile]:
    """The files that the last version of the table holds."""
    if not DeltaTable.is_deltatable(str(folder)):
        return []
    wanted = None if dates is None else set(dates)
    names = DeltaTable(str(folder)).get_add_actions(flatten=True).column("path").to_pylist()
    files = [StoredFile(name) for name in sorted(names)]
    return files if wanted is None else [file for file in files if file.date in wanted]


def commit_delta(folder: Path, added: list[str], removed: list[str], number: int) -> None:
    """Add files that lie in the folder already, and remove others from the table; they stay until it is vacuumed."""
    table = _open_or_create(folder)
    marked = table.transaction_version(APPLICATION)
    if marked is not None and marked >= number:
        return
    actions: list[AddAction | RemoveAction] = [_add(folder, name) for name in added]
    actions += [_remove(folder, name) for name in removed]
    table.create_write_transaction(
        actions,
        mode="append",
        schema=table.schema(),
        partition_by=_partition_columns(folder.name),
        commit_properties=CommitProperties(app_transactions=[Transaction(APPLICATION, number)]),
    )


def _open_or_create(folder: Path) -> DeltaTable:
    """With all the columns of today: one that an older release made lacks those that came since."""
    schema = Schema.from_arrow(to_arrow_schema(TABLES[folder.name], timezone="UTC"))
    if not DeltaTable.is_deltatable(str(folder)):
        return DeltaTable.create(str(folder), schema=schema, partition_by=_partition_columns(folder.name))
    table = DeltaTable(str(folder))
    known = {column.name for column in table.schema().fields}
    new = [column for column in schema.fields if column.name not in known]
    if new:
        table.alter.add_columns(new)
    return table


def _partition_columns(table: str) -> list[str]:
    return ["date"] if table in PARTITIONED else []


def _add(folder: Path, name: str) -> AddAction:
    path = folder / name
    status = path.stat()
    stats = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
    return AddAction(name, status.st_size, _partition(name), int(status.st_mtime * 1000), True, stats)


def _remove(folder: Path, name: str) -> RemoveAction:
    size = (folder / name).stat().st_size
    return RemoveAction(name, True, int(time.time() * 1000), size=size, partition_values=_partition(name))


def _partition(name: str) -> dict[str, Any]:
    day = StoredFile(name).date
    return {} if day is None else {DATE_PREFIX.rstrip("="): day}
