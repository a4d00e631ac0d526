"""Ask the tables questions in SQL: each table is a view of its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.errors import IngestError
from ingest.plain_values import as_json, collect_rows, plain
from ingest.schemas import TABLES
from ingest.spark_command import words_of
from ingest.store import files_of_all, version_of
from protocol.shown_text import printable

MAX_CELL_CHARACTERS = 80
MAX_TIMES_ASKED: Final = 5

Answer = TypeVar("Answer")


class Rows(NamedTuple):
    names: list[str]
    values: list[list[Any]]

    def as_json_lines(self) -> list[str]:
        return [as_json(dict(zip(self.names, row, strict=True))) for row in self.values]

    def as_table(self) -> list[str]:
        cells = [self.names, *([_cell(value) for value in row] for row in self.values)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.names))]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def run_query(spark: SparkSession, tables: Path, sql: str, limit: int) -> Rows:
    """Raises: IngestError, with Spark's words, for SQL that makes no sense or has no answer."""
    if not sql.strip():
        raise IngestError("there is no SQL to answer")

    def question() -> Rows:
        open_views(spark, tables)
        found = spark.sql(sql).limit(limit)
        return Rows(found.columns, collect_rows(found))

    try:
        return ask(tables, question)
    except (PySparkException, Py4JError) as error:
        raise IngestError(words_of(error)) from None


def ask(tables: Path, question: Callable[[], Answer]) -> Answer:
    """The answer, asked for again where a run replaced files before they could be read."""
    for _ in range(MAX_TIMES_ASKED - 1):
        version = version_of(tables)
        try:
            return question()
        except (PySparkException, Py4JError, FileNotFoundError):
            if version_of(tables) == version:
                raise
    return question()


def open_views(spark: SparkSession, tables: Path) -> None:
    """One view per table, of the files that it has now; one without files is empty."""
    for name, files in files_of_all(tables).items():
        schema = TABLES[name]
        reader = spark.read.schema(schema).option("basePath", str(tables / name))
        view = reader.parquet(*map(str, files)) if files else spark.createDataFrame([], schema)
        view.createOrReplaceTempView(name)


def _cell(value: Any) -> str:
    text = "" if value is None else printable(str(value if isinstance(value, float) else plain(value)))
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 1] + "…"
