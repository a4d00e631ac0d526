"""Readings → sensor and minute. Sums of parts are sums of all, so a late reading costs its own minutes only."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from ingest.schemas import ROLLUPS

SENSOR_AND_MINUTE: Final = ("device", "sensor", "quantity", "unit", "minute")


def roll_up(messages: DataFrame) -> DataFrame:
    """One row per sensor and minute, of readings that are numbers and whose time is known."""
    is_number = F.col("value").isNotNull() & ~F.isnan("value")
    is_timed = F.col("clock") != "unsynchronised"
    readings = messages.where(is_number & is_timed).select(
        "device",
        "sensor",
        "quantity",
        "unit",
        F.date_trunc("minute", "event_time").alias("minute"),
        "value",
        F.struct("event_time", "timestamp_ms", "sequence", "reading", "value").alias("latest"),
    )
    parts = readings.groupBy(*SENSOR_AND_MINUTE).agg(
        F.count("value").alias("count"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.sum("value").alias("sum"),
        F.max("latest").alias("latest"),
    )
    last = {"last": F.col("latest.value"), "last_time": F.col("latest.event_time")}
    return _complete(parts.withColumns(last))


def merge_rollups(parts: DataFrame) -> DataFrame:
    """Rows of the same sensor and minute as one row."""
    merged = parts.groupBy(*SENSOR_AND_MINUTE).agg(
        F.sum("count").alias("count"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        F.sum("sum").alias("sum"),
        F.max(F.struct("last_time", "last")).alias("latest"),
    )
    last = {"last": F.col("latest.last"), "last_time": F.col("latest.last_time")}
    return _complete(merged.withColumns(last))


def _complete(parts: DataFrame) -> DataFrame:
    derived = parts.withColumns({"mean": F.col("sum") / F.col("count"), "date": F.to_date("minute")})
    return derived.select(ROLLUPS.fieldNames())
