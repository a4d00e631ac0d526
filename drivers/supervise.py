"""Supervises one driver: reads it, reopens it with backoff after a failure, reports each change of state once."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

from drivers.contract import Driver
from drivers.errors import DeviceError
from drivers.health import DeviceChange, Health, SilenceDetector
from drivers.reading import Reading, now_ms
from runtime.backoff import Backoff
from runtime.stopping import check_cancelled


async def supervise(
    driver: Driver,
    backoff: Backoff | None = None,
    *,
    chance: Callable[[], float] = random.random,
    clock_ms: Callable[[], int] = now_ms,
    monotonic_s: Callable[[], float] = time.monotonic,
    leave_open: bool = False,
) -> AsyncGenerator[list[Reading] | DeviceChange, None]:
    """Yields readings and changes of state, without end. A failing device is a change of state, never an exception.

    Close it when done (`contextlib.aclosing`). That closes the driver too, unless `leave_open`: then it can still
    acknowledge readings that are committed later, and the caller closes it after that.
    """
    policy = backoff or Backoff()
    health = Health(driver.name, clock_ms())
    detector = SilenceDetector(driver.silence_s, monotonic_s())
    failures = 0
    try:
        while True:
            try:
                await driver.open()
                while True:
                    check_cancelled()  # libraries in use swallow cancellations
                    readings = await driver.read()
                    failures = 0
                    if driver.outage:
                        detector.pause(monotonic_s())
                        change = health.failed(driver.outage, clock_ms())
                    else:
                        silence = _note_readings(detector, readings, monotonic_s())
                        change = health.succeeded(driver.trouble, clock_ms(), silence and f"{driver.name}: {silence}")
                    if change:
                        yield change
                    if readings:
                        yield readings
            except DeviceError as error:
                failures += 1
                detector.pause(monotonic_s())
                if change := health.failed(str(error), clock_ms()):
                    yield change
            await driver.close()
            check_cancelled()  # or report it as a failure of the device
            with suppress(TimeoutError):
                async with asyncio.timeout(policy.wait_s(failures, chance())):
                    await driver.returned()
    finally:
        if not leave_open:
            await driver.close()


def _note_readings(detector: SilenceDetector, readings: Sequence[Reading], now_s: float) -> str:
    """The silent sensors; "" if there are none."""
    detector.resume(now_s)
    detector.note(readings, now_s)
    return detector.silence(now_s)
