"""Deletes messages beyond their stream's age, those of deleted streams, and those beyond a size.

Beyond the size of the database the heaviest user gives way first, with their oldest messages, so that a user that
floods the node pushes out no messages but their own.

Deleting goes in small steps, each a short transaction, so that publishing goes on in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from node.config import Retention
from node.counters import Counters
from node.errors import StorageError
from node.permissions.registry import Registry
from node.storage import Charge, PartTotals, Storage

RETENTION_INTERVAL_S: Final = 60
GROWTH_SHARE: Final = 20  # of the largest size
STEP_MESSAGES: Final = 1_000
STEP_BYTES: Final = 4_000_000
MEGABYTE: Final = 1_000_000
DAY_S: Final = 24 * 60 * 60
END_OF_TIME_S: Final = 2**62

log = logging.getLogger(__name__)


class Deletion(NamedTuple):
    """Everything in the partition that was stored before this must go."""

    part: int
    before_s: int


def plan_deletions(totals: Iterable[PartTotals], days_of: Callable[[str], int], now_s: int) -> list[Deletion]:
    """The deletions that are due: expired messages, and messages of deleted streams."""
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
        self._max_bytes = retention.max_megabytes * MEGABYTE
        self._counters = counters
        self._clock_ms = clock_ms

    async def retain_forever(self) -> None:
        while True:
            try:
                await self.delete_what_is_due()
            except StorageError as problem:
                log.error("cannot delete old messages; problem=%s", problem)  # noqa: TRY400 - the text says it all
            await self._wait()

    async def _wait(self) -> None:
        """Until some time has passed, or much was stored: between two deletions the database may grow by a share."""
        enough_bytes = self._counters.stored_bytes + self._max_bytes // GROWTH_SHARE
        for _ in range(RETENTION_INTERVAL_S):
            await asyncio.sleep(1)
            if self._counters.stored_bytes >= enough_bytes:
                return

    async def delete_what_is_due(self) -> None:
        for part, before_s in plan_deletions(await self._storage.totals(), self._days_of, self._clock_ms() // 1000):
            while deleted := await self._storage.delete_old(part, before_s, STEP_MESSAGES):
                self._counters.expired += deleted
        await self._delete_beyond_quotas()
        await self._delete_beyond_size()
        await self._storage.drop_empty_parts()

    async def _delete_beyond_quotas(self) -> None:
        quotas: tuple[tuple[Charge, int | None], ...] = (
            ("owner", self._retention.max_megabytes_per_owner),
            ("origin", self._retention.max_megabytes_per_address),
        )
        for charge, megabytes in quotas:
            if megabytes is not None:
                while deleted := await self._storage.delete_of_heaviest(
                    STEP_MESSAGES, max_bytes=STEP_BYTES, by=charge, beyond_bytes=megabytes * MEGABYTE
                ):
                    self._counters.expired += deleted

    async def _delete_beyond_size(self) -> None:
        while (excess := await self._storage.used_bytes() - self._max_bytes) > 0:
            deleted = await self._storage.delete_of_heaviest(STEP_MESSAGES, max_bytes=min(excess, STEP_BYTES))
            if not deleted:
                return
            self._counters.expired += deleted

    def _days_of(self, stream_id: str) -> int:
        """Messages that came from other nodes may be of streams unknown here; they stay as long as any."""
        stream = self._registry.find(stream_id)
        if stream is None or stream.storage_days is None:
            return self._retention.max_days
        return stream.storage_days
