import pytest
from pyspark.sql import SparkSession

import ingest.known
from ingest.deliveries import Deliveries
from ingest.known import Announcer
from ingest.summary import ArchiveSummary

pytestmark = pytest.mark.slow


def entered(deliveries: Deliveries, *archives: str, verdict: str = "verified") -> None:
    made = [ArchiveSummary(archive=each, path=each, landed_at_ms=0, size_bytes=1, verdict=verdict) for each in archives]
    deliveries.enter(made, [])


def test_what_was_known_before_and_what_came_since_are_both_known(spark: SparkSession) -> None:
    deliveries = Deliveries()
    entered(deliveries, "old")
    entered(deliveries, "encrypted", verdict="archive encrypted")
    announcer = Announcer(spark, deliveries)
    entered(deliveries, "new", "encrypted")
    known = announcer.announce()
    assert [known.get(each) for each in ("old", "new", "encrypted", "other")] == [
        "verified",
        "verified",
        "verified",
        None,
    ]


def test_workers_know_what_was_announced(spark: SparkSession) -> None:
    deliveries = Deliveries()
    entered(deliveries, "old")
    announcer = Announcer(spark, deliveries)
    entered(deliveries, "new")
    known = announcer.announce()
    asked = spark.sparkContext.parallelize(["old", "new", "other"], 2)
    assert asked.map(known.get).collect() == ["verified", "verified", None]


def test_what_travels_with_a_batch_does_not_grow_with_history(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest.known, "MAX_SINCE", 10)
    deliveries = Deliveries()
    announcer = Announcer(spark, deliveries)
    for number in range(100):
        entered(deliveries, f"archive {number}")
        known = announcer.announce()
        assert len(known.since) <= 10
        assert known.get("archive 0") == known.get(f"archive {number}") == "verified"
