"""Ask the tables questions in SQL: each table is a view of its name."""

import base64
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from ingest.errors import IngestError
from ingest.schemas import TABLES
from ingest.store import files_of

__all__ = ["Rows", "open_views", "run_query"]

MAX_CELL_CHARACTERS = 80


class Rows(NamedTuple):
    names: list[str]
    values: list[list[Any]]

    def as_json_lines(self) -> list[str]:
        return [json.dumps(dict(zip(self.names, map(_plain, row), strict=True))) for row in self.values]

    def as_table(self) -> list[str]:
        cells = [self.names, *([_cell(value) for value in row] for row in self.values)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.names))]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def run_query(spark: SparkSession, tables: Path, sql: str, limit: int) -> Rows:
    """Raises: IngestError, with Spark's words, for SQL that makes no sense."""
    open_views(spark, tables)
    try:
        found = spark.sql(sql).limit(limit)
        return Rows(found.columns, [list(row) for row in found.collect()])
    except (AnalysisException, ParseException) as error:
        raise IngestError(str(error).splitlines()[0]) from None


def open_views(spark: SparkSession, tables: Path) -> None:
    """One view per table, of the files that it has now; one without files is empty."""
    for name, schema in TABLES.items():
        files = files_of(tables, name)
        reader = spark.read.schema(schema).option("basePath", str(tables / name))
        view = reader.parquet(*map(str, files)) if files else spark.createDataFrame([], schema)
        view.createOrReplaceTempView(name)


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return value.isoformat()
    return value


def _cell(value: Any) -> str:
    text = "" if value is None else str(_plain(value))
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 1] + "…"
