"""Small DataFrames of the tables' schemas from the few columns that a test is about."""

from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def frame(spark: SparkSession, schema: StructType, *rows: dict[str, Any]) -> DataFrame:
    """One row per dict; what it does not name is null."""
    return spark.createDataFrame([tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def day(text: str) -> date:
    return date.fromisoformat(text)
