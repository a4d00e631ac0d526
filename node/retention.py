"""What is kept no longer: messages beyond their stream's age, those of deleted streams, and the oldest beyond the size.

Deleting goes in small steps, each a short transaction, so that publishing goes on in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from node.config import Retention
from node.counters import Counters
from node.errors import StorageError
from node.registry import Registry
from node.storage import PartTotals, Storage

__all__ = ["Deletion", "Retainer", "plan_deletions"]

RETENTION_INTERVAL_S: Final = 60.0
STEP_MESSAGES: Final = 1_000
DAY_S: Final = 24 * 60 * 60
END_OF_TIME_S: Final = 2**62

log = logging.getLogger(__name__)


class Deletion(NamedTuple):
    """Everything in the partition that was stored before this must go."""

    part: int
    before_s: int


def plan_deletions(totals: Iterable[PartTotals], days_of: Callable[[str], int], now_s: int) -> list[Deletion]:
    """What the age of messages asks for, and that their stream was deleted."""
    plan = []
    for part in totals:
        before_s = END_OF_TIME_S if part.stream_id is None else now_s - days_of(part.stream_id) * DAY_S
        if part.stored_since_s is not None and part.stored_since_s < before_s:
            plan.append(Deletion(part.number, before_s))
    return plan


class Retainer:
    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        retention: Retention,
        counters: Counters,
        clock_ms: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._retention = retention
        self._counters = counters
        self._clock_ms = clock_ms

    async def retain_forever(self) -> None:
        while True:
            try:
                await self.delete_what_is_due()
            except StorageError as problem:
                log.error("cannot delete old messages; problem=%s", problem)  # noqa: TRY400 - the text says it all
            await asyncio.sleep(RETENTION_INTERVAL_S)

    async def delete_what_is_due(self) -> None:
        for part, before_s in plan_deletions(await self._storage.totals(), self._days_of, self._clock_ms() // 1000):
            while deleted := await self._storage.delete_old(part, before_s, STEP_MESSAGES):
                self._counters.expired += deleted
        await self._delete_beyond_size()
        await self._storage.drop_empty_parts()

    async def _delete_beyond_size(self) -> None:
        max_bytes = self._retention.max_megabytes * 1_000_000
        while await self._storage.used_bytes() > max_bytes:
            deleted = await self._storage.delete_first(STEP_MESSAGES)
            if not deleted:
                return
            self._counters.expired += deleted

    def _days_of(self, stream_id: str) -> int:
        """Messages that came from other nodes may be of streams unknown here; they stay as long as any."""
        stream = self._registry.find(stream_id)
        if stream is None or stream.storage_days is None:
            return self._retention.max_days
        return stream.storage_days
