"""Drivers → batches. One task per driver; a full queue holds the driver back, and no driver another."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.batch import Batch
from agent.latest import LatestReadings
from drivers import DeviceChange, DeviceState, Driver, Reading, attend

__all__ = ["Collector", "CollectorStatus"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class CollectorStatus:
    """How a device is doing; the numbers only rise."""

    state: str = DeviceState.STARTING.value
    reason: str = ""
    readings: int = 0
    last: Reading | None = None
    latest: LatestReadings = field(default_factory=LatestReadings)


class Collector:
    """Keeps one driver read for as long as it runs."""

    def __init__(self, driver: Driver, queue: asyncio.Queue[Batch], on_change: Callable[[DeviceChange], None]) -> None:
        self.status = CollectorStatus()
        self._driver = driver
        self._queue = queue
        self._on_change = on_change

    @property
    def counters(self) -> Mapping[str, float]:
        """What the driver itself counts."""
        return self._driver.counters

    @property
    def driver(self) -> Driver:
        return self._driver

    async def run(self) -> None:
        async with contextlib.aclosing(attend(self._driver)) as happenings:
            async for happening in happenings:
                if isinstance(happening, DeviceChange):
                    self._note(happening)
                else:
                    await self._pass_on(happening)

    async def _pass_on(self, readings: Sequence[Reading]) -> None:
        tokens = dict.fromkeys([reading.token for reading in readings if reading.token is not None])  # in their order
        committed = (lambda: self._driver.acknowledge(tokens)) if tokens else None
        batch = Batch(self._driver.name, readings, is_lasting=self._driver.HAS_LASTING_TOKENS)
        await self._queue.put(batch if committed is None else batch._replace(committed=committed))
        self.status.readings += len(readings)
        self.status.last = readings[-1]
        self.status.latest.note(readings)

    def _note(self, change: DeviceChange) -> None:
        self.status.state, self.status.reason = change.after.value, change.reason
        is_good = change.after is DeviceState.UP
        log.log(
            logging.INFO if is_good else logging.WARNING,
            "device %s; device=%s before=%s lasted_s=%.1f reason=%s",
            change.after, change.device, change.before, change.lasted_ms / 1000, change.reason or "-",
        )  # fmt: skip
        self._on_change(change)
