"""What every driver promises, shown for each with a real port, broker, server or tree behind it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from drivers import (
    DRIVERS,
    ConfigError,
    DeviceChange,
    DeviceError,
    DeviceState,
    Driver,
    Reading,
    build_driver,
    supervise,
)
from drivers.contract import MAX_READINGS_PER_READ
from runtime.backoff import Backoff
from tests.support.driver_rigs import RIGS, Rig, fd_count
from tests.support.within import within

SOON_S = 10.0
QUICK = Backoff(first_s=0.05, max_s=0.1)
Events = AsyncGenerator[list[Reading] | DeviceChange, None]

every_driver = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.needs("mosquitto", "mosquitto") if kind == "mqtt" else ())
        for kind in DRIVERS
    ],
)


def with_rig(kind: str, folder: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        rig = RIGS[kind](folder)
        await rig.set_up()
        try:
            async with asyncio.timeout(SOON_S), rig.speaking():
                await test(rig)
        finally:
            await rig.tear_down()

    asyncio.run(run())


async def first_readings(driver: Driver) -> list[Reading]:
    while True:
        if readings := await driver.read():
            return readings


async def open_and_read(driver: Driver) -> None:
    await driver.open()
    await first_readings(driver)


async def read_for_ever(driver: Driver) -> None:
    while True:
        await driver.read()


def test_every_driver_of_the_table_has_a_rig() -> None:
    assert RIGS.keys() == DRIVERS.keys()


@every_driver
def test_build_reports_all_problems_with_their_paths(kind: str, tmp_path: Path) -> None:
    bad = RIGS[kind].bad_settings
    with pytest.raises(ConfigError) as caught:
        build_driver("rig", {"driver": kind, **bad})
    assert len(caught.value.problems) >= 2
    assert all(problem.startswith("drivers.rig.") and ": " in problem for problem in caught.value.problems)
    assert caught.value.exit_code == 78


@every_driver
def test_build_opens_nothing(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        await rig.break_it()
        before = fd_count()
        assert rig.build().name == "rig"
        assert fd_count() == before

    with_rig(kind, tmp_path, test)


@every_driver
def test_an_open_driver_gives_readings_and_closing_twice_is_no_fault(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        driver = rig.build()
        await driver.open()
        readings = await first_readings(driver)
        assert 0 < len(readings) <= MAX_READINGS_PER_READ
        assert all(isinstance(reading, Reading) and reading.taken_at_ms > 0 for reading in readings)
        await driver.acknowledge([reading.token for reading in readings if reading.token is not None])
        await driver.acknowledge([10**9])
        await driver.close()
        await driver.close()

    with_rig(kind, tmp_path, test)


@every_driver
def test_reading_before_opening_and_after_closing_is_a_device_error(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        driver = rig.build()
        with pytest.raises(DeviceError, match=r"rig: .*open"):
            await driver.read()
        await driver.open()
        await driver.close()
        with pytest.raises(DeviceError, match=r"rig: .*open"):
            await driver.read()

    with_rig(kind, tmp_path, test)


@every_driver
def test_opening_again_and_again_leaks_nothing(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        driver = rig.build()
        await driver.open()
        await first_readings(driver)
        before = fd_count()
        for _ in range(5):
            await driver.open()
        assert await first_readings(driver)
        assert fd_count() <= before + 3  # what the rig itself has under way
        await driver.close()

    with_rig(kind, tmp_path, test)


@every_driver
def test_a_broken_device_says_what_where_and_what_to_do_and_works_when_mended(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        driver = rig.build()
        await rig.break_it()
        for _ in range(2):
            with pytest.raises(DeviceError) as caught:
                await open_and_read(driver)
            assert str(caught.value).startswith("rig: ")
            assert "; check " in str(caught.value) or "; wait " in str(caught.value)
            assert caught.value.exit_code == 69
            await driver.close()
        await rig.repair()
        await driver.open()
        assert await first_readings(driver)
        await driver.close()

    with_rig(kind, tmp_path, test)


@every_driver
def test_a_device_that_breaks_while_read_fails_and_comes_back(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        driver = rig.build()
        await driver.open()
        await first_readings(driver)
        await rig.break_it()
        with pytest.raises(DeviceError, match="rig: "):
            await read_for_ever(driver)
        await rig.repair()
        await driver.open()
        assert await first_readings(driver)
        await driver.close()

    with_rig(kind, tmp_path, test)


@every_driver
def test_each_change_of_state_is_reported_once_with_the_length_of_the_outage(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        changes: list[DeviceChange] = []
        async with contextlib.aclosing(supervise(rig.build(), QUICK)) as stream:
            await _until(stream, changes, DeviceState.UP)
            await rig.break_it()
            await _until(stream, changes, DeviceState.DOWN)
            with contextlib.suppress(TimeoutError):  # many failures, not one word more
                await within(0.5, _until(stream, changes, DeviceState.UP))
        assert [change.after for change in changes] == [DeviceState.UP, DeviceState.DOWN]

    with_rig(kind, tmp_path, test)


@every_driver
def test_an_attended_device_comes_back_by_itself(kind: str, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        changes: list[DeviceChange] = []
        async with contextlib.aclosing(supervise(rig.build(), QUICK)) as stream:
            await _until(stream, changes, DeviceState.UP)
            await rig.break_it()
            await _until(stream, changes, DeviceState.DOWN)
            await rig.repair()
            await _until(stream, changes, DeviceState.UP)
        assert [change.after for change in changes] == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP]
        assert changes[-1].before is DeviceState.DOWN
        assert changes[-1].lasted_ms == changes[-1].at_ms - changes[-2].at_ms
        assert changes[1].reason.startswith("rig: ")

    with_rig(kind, tmp_path, test)


async def _until(stream: Events, changes: list[DeviceChange], state: DeviceState) -> None:
    async for event in stream:
        if isinstance(event, DeviceChange):
            changes.append(event)
            if event.after is state:
                return
