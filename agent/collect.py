"""The collect stage: one task per driver turns its readings into batches. A full queue makes the driver wait.

A `Batch` travels from a collector, or from the agent's own events, to the commit stage.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agent.pack.routing import Route
from drivers import DeviceChange, DeviceState, Driver, Reading, supervise

log = logging.getLogger(__name__)
MAX_SENSORS: Final = 256  # of one device, so that a source with ever new names costs bounded memory


async def nothing_to_do() -> None:
    """The acknowledgement of a source that needs none."""


class Batch(NamedTuple):
    """Readings of one source. `committed` is awaited once they are on the medium, and not before."""

    source: str  # the driver's name, by which the rules route
    readings: Sequence[Reading]
    route: Route | None = None  # fixed, instead of by the rules: the agent's own events
    committed: Callable[[], Awaitable[None]] = nothing_to_do
    has_durable_tokens: bool = False  # the tokens of these readings stay valid after a restart


class LatestReadings:
    """The latest reading of each sensor and quantity, for the status; of bytes only their number. On the hot path."""

    def __init__(self) -> None:
        self.readings: dict[tuple[str, str], Reading] = {}
        self.has_more = False  # sensors than these

    def note(self, readings: Sequence[Reading]) -> None:
        for name, reading in {reading[:2]: reading for reading in readings}.items():
            if name in self.readings or len(self.readings) < MAX_SENSORS:
                self.readings[name] = _without_payload(reading)
            else:
                self.has_more = True


def _without_payload(reading: Reading) -> Reading:
    sensor, quantity, value, _, taken_at_ms, *_ = reading
    if not isinstance(value, bytes):
        return reading
    return Reading(sensor, quantity, f"{len(value)} bytes", taken_at_ms=taken_at_ms)


@dataclass(slots=True)
class CollectorStatus:
    """How a device is doing; the numbers only rise."""

    state: str = DeviceState.STARTING.value
    reason: str = ""
    readings: int = 0
    last: Reading | None = None
    latest: LatestReadings = field(default_factory=LatestReadings)


class Collector:
    """Reads one driver, for as long as it runs."""

    def __init__(self, driver: Driver, queue: asyncio.Queue[Batch], on_change: Callable[[DeviceChange], None]) -> None:
        self.status = CollectorStatus()
        self._driver = driver
        self._queue = queue
        self._on_change = on_change
        self._unqueued: Sequence[Reading] = ()  # read, and not in the queue yet

    @property
    def counters(self) -> Mapping[str, float]:
        """The driver's own counters."""
        return self._driver.counters

    @property
    def driver(self) -> Driver:
        return self._driver

    async def run(self) -> None:
        """Read until cancelled. The driver stays open, to acknowledge readings that are committed later.

        May be run again after that, and loses no reading in between.
        """
        if self._unqueued:
            await self._queue_batch(self._unqueued)
        async with contextlib.aclosing(supervise(self._driver, leave_open=True)) as events:
            async for event in events:
                if isinstance(event, DeviceChange):
                    self._note(event)
                else:
                    await self._queue_batch(event)

    async def close(self) -> None:
        """Close the driver, after `run` has ended and its batches are committed, or will not be."""
        await self._driver.close()

    async def _queue_batch(self, readings: Sequence[Reading]) -> None:
        tokens = dict.fromkeys([reading.token for reading in readings if reading.token is not None])  # in their order
        committed = (lambda: self._driver.acknowledge(tokens)) if tokens else None
        self._unqueued = readings
        batch = Batch(self._driver.name, readings, has_durable_tokens=self._driver.HAS_DURABLE_TOKENS)
        await self._queue.put(batch if committed is None else batch._replace(committed=committed))
        self._unqueued = ()
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
