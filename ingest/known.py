"""Which archives the tables hold, as the workers are told: all of them once, and with each batch what came since.

A hundred thousand archives are 7 MB. To hand them to every task of every batch would cost the more, the longer the
history; a worker loads what was broadcast once.
"""

from typing import Final, NamedTuple

from pyspark import Broadcast
from pyspark.sql import SparkSession

from ingest.deliveries import Deliveries

MAX_SINCE: Final = 1_000  # archives; then all are broadcast anew


class Announced(NamedTuple):
    """It travels to the workers."""

    before: Broadcast[dict[str, str]]  # verdicts by digest
    since: dict[str, str]

    def get(self, archive: str) -> str | None:
        return self.since.get(archive) or self.before.value.get(archive)


class Announcer:
    """Stays on the driver."""

    def __init__(self, spark: SparkSession, deliveries: Deliveries) -> None:
        self._spark = spark
        self._deliveries = deliveries
        self._before = self._broadcast()

    def announce(self) -> Announced:
        if len(self._deliveries.since) > MAX_SINCE:
            self._before.destroy()
            self._before = self._broadcast()
        return Announced(self._before, dict(self._deliveries.since))

    def _broadcast(self) -> Broadcast[dict[str, str]]:
        self._deliveries.since.clear()
        return self._spark.sparkContext.broadcast(self._deliveries.verdicts)
