from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from ingest.rollup import merge_rollups, roll_up
from ingest.schemas import MESSAGES, ROLLUPS
from tests.support.frames import at, day, frame

pytestmark = pytest.mark.slow


def reading(moment: str, value: float | None, **others: Any) -> dict[str, Any]:
    return {
        "device": "0xd1",
        "sensor": "boiler",
        "quantity": "temperature",
        "unit": "Cel",
        "timestamp_ms": 0,
        "sequence": 0,
        "reading": 0,
        "clock": "synchronised",
        "event_time": at(moment),
        "value": value,
        **others,
    }


def minute(moment: str, **others: Any) -> dict[str, Any]:
    row = {key: reading(moment, None)[key] for key in ("device", "sensor", "quantity", "unit")}
    return {**row, "minute": at(moment), "date": day(moment[:10]), **others}


def test_a_minute_has_its_count_extremes_mean_and_last(spark: SparkSession) -> None:
    messages = frame(
        spark,
        MESSAGES,
        reading("2026-01-01T00:00:50", 4.0),
        reading("2026-01-01T00:00:59.999", 1.0),
        reading("2026-01-01T00:00:10", 7.0),
        reading("2026-01-01T00:01:00", 9.0),
        reading("2026-01-01T00:01:01", None, value_text="open"),
        reading("1970-01-01T00:01:01", 5.0, clock="unsynchronised"),
        reading("2026-01-01T00:01:02", float("nan")),
    )
    first = minute("2026-01-01T00:00:00", count=3, min=1.0, max=7.0, sum=12.0, mean=4.0)
    last = {"last": 1.0, "last_time": at("2026-01-01T00:00:59.999")}
    second = minute("2026-01-01T00:01:00", count=1, min=9.0, max=9.0, sum=9.0, mean=9.0)
    expected = [{**first, **last}, {**second, "last": 9.0, "last_time": at("2026-01-01T00:01:00")}]
    assertDataFrameEqual(roll_up(messages), frame(spark, ROLLUPS, *expected))


def test_minutes_that_meet_become_one_whatever_came_first(spark: SparkSession) -> None:
    early = minute("2026-01-01T00:00:00", count=2, min=1.0, max=5.0, sum=6.0, mean=3.0)
    late = minute("2026-01-01T00:00:00", count=1, min=9.0, max=9.0, sum=9.0, mean=9.0)
    parts = [
        {**early, "last": 5.0, "last_time": at("2026-01-01T00:00:20")},
        {**late, "last": 9.0, "last_time": at("2026-01-01T00:00:10")},
    ]
    merged = {**early, "count": 3, "max": 9.0, "sum": 15.0, "mean": 5.0}
    merged |= {"last": 5.0, "last_time": at("2026-01-01T00:00:20")}
    for order in (parts, parts[::-1]):
        assertDataFrameEqual(merge_rollups(frame(spark, ROLLUPS, *order)), frame(spark, ROLLUPS, merged))
