"""Base of drivers that poll at an interval: the schedule, and blocking calls in a thread."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import DeviceError
from drivers.reading import Reading


class Schedule:
    """Ticks at whole multiples of an interval, without drift; missed ticks are skipped."""

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._next_s = now_s  # the first tick is now

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next tick; the schedule then moves to the tick after it."""
        if self._next_s < now_s:
            missed = int((now_s - self._next_s) / self._interval_s)
            self._next_s += missed * self._interval_s
        wait_s = max(0.0, self._next_s - now_s)
        self._next_s += self._interval_s
        return wait_s


class PolledDriver(Driver):
    """A driver that implements `poll`, and maybe `connect` and `disconnect`."""

    def __init__(self, name: str, interval_s: float) -> None:
        super().__init__(name)
        self._interval_s = interval_s
        self._schedule: Schedule | None = None  # None while closed

    async def open(self) -> None:
        await self.close()
        await self.connect()
        self._schedule = Schedule(self._interval_s, asyncio.get_running_loop().time())

    async def read(self) -> list[Reading]:
        if self._schedule is None:
            raise DeviceError(f"{self.name}: the driver is not open; open it before reading")
        await asyncio.sleep(self._schedule.wait_s(asyncio.get_running_loop().time()))
        return (await self.poll())[:MAX_READINGS_PER_READ]

    async def close(self) -> None:
        self._schedule = None
        await self.disconnect()

    async def connect(self) -> None:
        """Raises: DeviceError."""

    async def disconnect(self) -> None:
        """Release what `connect` opened, if anything; called any number of times."""

    @abstractmethod
    async def poll(self) -> list[Reading]:
        """Read once. Raises: DeviceError."""


class BlockingCall:
    """Runs a blocking call of one device in a thread, one at a time.

    A hung call occupies one thread, however often it is tried again: the agent has few threads, and shares them.
    """

    def __init__(self, what: str, timeout_s: float) -> None:
        self._what = what
        self._timeout_s = timeout_s
        self._running: asyncio.Future[list[Reading]] | None = None

    @property
    def is_free(self) -> bool:
        """Whether no call is running."""
        return self._running is None or self._running.done()

    async def run(self, call: Callable[[], list[Reading]]) -> list[Reading]:
        """Raises: DeviceError if it takes too long, or one that did still hangs."""
        if not self.is_free:
            raise DeviceError(f"{self._what} still does not answer; check the device")
        self._running = asyncio.ensure_future(asyncio.to_thread(call))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(self._running)
        except TimeoutError:
            raise DeviceError(f"{self._what} does not answer within {self._timeout_s:g} s; check the device") from None
