"""Records read by the fast path of the ingest, laid out as the general path lays them out, to compare the two."""

from typing import Any
from unittest.mock import patch

import pyarrow as pa

from ingest.decoded import ROW_COLUMNS, Decoded
from ingest.many_readings import LaidOut, ManyReadings
from ingest.quick import QuickReader
from ingest.reading_columns import Spread
from protocol.archive.records import Record
from protocol.binding import sign_binding
from testbed.corpus.archives import Device


def quick_reader(device: Device) -> QuickReader:
    return QuickReader(sign_binding(device.signer, bytes(device.archive_key.verify_key)))


def read_fast(quick: QuickReader, record: Record, *, in_columns: bool) -> Decoded | None:
    """The record with its rows, read in columns as far as possible, or one by one; None if it is not accepted."""
    (message,) = quick.read([record], [0])
    if message is None:
        return None
    with patch("ingest.many_readings.MIN_TOGETHER", 1 if in_columns else 10**9):
        readings = ManyReadings([message])
    (decoded,) = readings.decoded()
    return decoded and decoded._replace(rows=rows_of(readings.lay_out(["first"])))


def rows_of(laid_out: LaidOut) -> list[tuple[Any, ...]]:
    """In the order of their readings."""
    count = len(laid_out.columns.get("message_id", ()))
    columns = [_values(laid_out.columns.get(name), count) for name in ROW_COLUMNS]
    rows = [*laid_out.rows, *zip(*columns, strict=True)]
    return sorted(rows, key=lambda row: row[ROW_COLUMNS.index("reading")])


def _values(column: Spread | pa.Array | None, count: int) -> list[Any]:
    match column:
        case None:
            return [None] * count
        case Spread(values, places):
            return [values[place] for place in places.to_pylist()]
    return list(column.to_pylist())
