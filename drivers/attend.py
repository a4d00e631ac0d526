"""Keep one device read for as long as anyone asks: reopen with backoff, report each change of state once."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from drivers.backoff import Backoff
from drivers.contract import Driver
from drivers.errors import DeviceError
from drivers.health import DeviceChange, Health
from drivers.reading import Reading, now_ms

__all__ = ["attend"]


async def attend(
    driver: Driver,
    backoff: Backoff | None = None,
    *,
    chance: Callable[[], float] = random.random,
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncGenerator[list[Reading] | DeviceChange, None]:
    """Readings and changes of state, without end. A failing device is a change of state, never an exception.

    Close it when done (`contextlib.aclosing`): that closes the driver.
    """
    policy = backoff or Backoff()
    health = Health(driver.name, clock_ms())
    failures = 0
    try:
        while True:
            try:
                await driver.open()
                while True:
                    readings = await driver.read()
                    failures = 0
                    if change := _change_of(health, driver, clock_ms()):
                        yield change
                    if readings:
                        yield readings
            except DeviceError as error:
                failures += 1
                if change := health.failed(str(error), clock_ms()):
                    yield change
            await driver.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(driver.returned(), policy.wait_s(failures, chance()))
    finally:
        await driver.close()


def _change_of(health: Health, driver: Driver, now_ms: int) -> DeviceChange | None:
    if driver.outage:
        return health.failed(driver.outage, now_ms)
    return health.works(driver.trouble, now_ms)
