"""What drivers share that ask at an interval: the schedule, and blocking calls kept off the event loop."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import DeviceError
from drivers.pace import Schedule
from drivers.reading import Reading

__all__ = ["PolledDriver", "call_blocking"]


class PolledDriver(Driver):
    """A driver that brings `poll`, and maybe `connect` and `disconnect`."""

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
            raise DeviceError(f"{self.name}: it is not open; open it before reading")
        await asyncio.sleep(self._schedule.wait_s(asyncio.get_running_loop().time()))
        return (await self.poll())[:MAX_READINGS_PER_READ]

    async def close(self) -> None:
        self._schedule = None
        await self.disconnect()

    async def connect(self) -> None:
        """Raises: DeviceError."""

    async def disconnect(self) -> None:
        """Let go of what `connect` took, if anything; called any number of times."""

    @abstractmethod
    async def poll(self) -> list[Reading]:
        """Ask once. Raises: DeviceError."""


async def call_blocking(what: str, timeout_s: float, call: Callable[[], list[Reading]]) -> list[Reading]:
    """Run a call that may block in a thread. A hung one costs that thread and is a `DeviceError`."""
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(call)
    except TimeoutError:
        raise DeviceError(f"{what} does not answer within {timeout_s:g} s; check the device") from None
