"""Limits per device: the rate of requests, the rate of bytes, and one request at a time for each archive.

A device whose link broke reconnects while the collector still waits for bytes on the old connection. Its new request
does not wait for the old one to time out: it cancels it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ingest.collector.errors import UploadRefused
from ingest.collector.settings import Limits
from protocol.shipping import Refusal
from runtime.token_bucket import TokenBucket

BURST_S = 2.0  # a burst may use what was left unused in this time
MAX_DEVICES = 16_384  # beyond it the least recently seen device is dropped, and its buckets are full again


@dataclass(frozen=True, slots=True)
class _Buckets:
    requests: TokenBucket
    bytes: TokenBucket


class DeviceRates:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[bytes, _Buckets] = OrderedDict()

    def count_request(self, device: bytes, now_s: float) -> None:
        """Raises: UploadRefused if the device sends requests too often. A refused request is not counted."""
        wait_s = self._of(device).requests.take_if_available(1, now_s)
        if wait_s > 0:
            raise UploadRefused(
                Refusal.TOO_MANY_REQUESTS, "this device sends requests too often", retry_after_s=int(wait_s) + 1
            )

    def count_bytes(self, device: bytes, count: int, now_s: float) -> float:
        """Returns the seconds for which nothing more is to be read from the device."""
        return self._of(device).bytes.take(count, now_s)

    def _of(self, device: bytes) -> _Buckets:
        if device not in self._buckets:
            rates = (self._limits.device_requests_per_s, float(self._limits.device_bytes_per_s))
            self._buckets[device] = _Buckets(*(TokenBucket(rate, max(1, rate * BURST_S)) for rate in rates))
            if len(self._buckets) > MAX_DEVICES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(device)
        return self._buckets[device]


class _Holder:
    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self.is_superseded = False
        self.ended = asyncio.Event()

    def supersede(self) -> None:
        if not self.is_superseded:
            self.is_superseded = True
            self._task.cancel()

    def is_only_superseded(self) -> bool:
        """Whether nothing else cancelled the task; if so, it may continue."""
        return self.is_superseded and self._task.uncancel() == 0


class ArchiveLocks:
    """One request at a time for each key; a newer one cancels the one that holds it."""

    def __init__(self) -> None:
        self._holders: dict[Hashable, _Holder] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Raises: UploadRefused in the block, when a newer request needs the key."""
        while (older := self._holders.get(key)) is not None:
            older.supersede()
            await older.ended.wait()
        task = asyncio.current_task()
        assert task is not None
        holder = self._holders[key] = _Holder(task)
        try:
            yield
        except asyncio.CancelledError:
            if holder.is_only_superseded():
                raise UploadRefused(Refusal.TAKEN_OVER, "a newer request for the same archive has taken over") from None
            raise
        finally:
            del self._holders[key]
            holder.ended.set()
