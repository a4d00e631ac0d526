"""Deletes messages beyond their stream's age, those of deleted streams, and those beyond a size.

If the database is too large, the oldest messages of the heaviest user are deleted first, so that a user that floods the
node loses only its own messages. Messages are deleted in small steps, each a short transaction, so that publishing
continues in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
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
    """Delete the messages of a partition that were stored before a time."""

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
        """Wait for the interval, or until the database has grown by a share of its largest size."""
        enough_bytes = self._counters.stored_bytes + self._max_bytes // GROWTH_SHARE
        for _ in range(RETENTION_INTERVAL_S):
            await asyncio.sleep(1)
            if self._counters.stored_bytes >= enough_bytes:
                return

    async def delete_what_is_due(self) -> None:
        messages = self._storage.messages
        for part, before_s in plan_deletions(await self._storage.totals(), self._days_of, self._clock_ms() // 1000):
            while await self._delete(partial(messages.delete_old, part, before_s, STEP_MESSAGES)):
                pass
        await self._delete_beyond_quotas()
        await self._delete_beyond_size()
        await self._storage.write(messages.drop_empty_parts)

    async def _delete(self, step: Callable[[], int]) -> int:
        """Run one step. Returns how many messages it deleted."""
        deleted = await self._storage.write(step)
        self._counters.expired += deleted
        return deleted

    async def _delete_beyond_quotas(self) -> None:
        quotas: tuple[tuple[Charge, int | None], ...] = (
            ("owner", self._retention.max_megabytes_per_owner),
            ("origin", self._retention.max_megabytes_per_address),
        )
        delete = partial(self._storage.messages.delete_of_heaviest, STEP_MESSAGES, max_bytes=STEP_BYTES)
        for charge, megabytes in quotas:
            if megabytes is not None:
                while await self._delete(partial(delete, by=charge, beyond_bytes=megabytes * MEGABYTE)):
                    pass

    async def _delete_beyond_size(self) -> None:
        delete = partial(self._storage.messages.delete_of_heaviest, STEP_MESSAGES)
        while (excess := await self._storage.used_bytes() - self._max_bytes) > 0:
            if not await self._delete(partial(delete, max_bytes=min(excess, STEP_BYTES))):
                return

    def _days_of(self, stream_id: str) -> int:
        """Messages from other nodes may be of streams that are unknown here; `max_days` holds for them."""
        stream = self._registry.find(stream_id)
        if stream is None or stream.storage_days is None:
            return self._retention.max_days
        return stream.storage_days
