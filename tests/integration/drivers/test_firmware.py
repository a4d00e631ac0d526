"""The firmware driver on ptys, with devices in Python behind them: found, lost, moved, refused, recalled."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drivers import DeviceChange, DeviceError, DeviceState, Reading, supervise
from drivers.firmware.driver import MAX_LINES, FirmwareDriver, build
from runtime.backoff import Backoff
from testbed.cable import PtyPort
from tests.support.model_device import ModelDevice
from tests.support.patience import PATIENCE_S

NEVER_BY_ITSELF = Backoff(first_s=60, max_s=60)


class Plugged:
    """A device in Python on a pty, alive as long as the test."""

    def __init__(self, device: ModelDevice, port: PtyPort) -> None:
        self.device = device
        self.port = port
        self.interval_s = 0.02
        self._measured_s = 0.0

    async def live(self) -> None:
        while True:
            now_s = time.monotonic()
            self.device.receive(self.port.received(), now_s * 1000)
            self.device.tick(now_s * 1000)
            if now_s - self._measured_s > self.interval_s and len(self.device.queue) < 20:
                self._measured_s = now_s
                self.device.measure(len(self.device.measured[self.device.boot_id]), now_s * 1000)
            self.port.send(self.device.take_output())
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def plugged(link: Path, device: ModelDevice | None = None) -> AsyncIterator[Plugged]:
    plug = Plugged(device or ModelDevice(), PtyPort(link))
    task = asyncio.create_task(plug.live())
    try:
        yield plug
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        plug.port.unplug()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(in_time())


def driver_of(port: Path | str, **more: Any) -> FirmwareDriver:
    return build("mcu", {"port": str(port), "silence_s": 0.2, **more})


async def take(driver: FirmwareDriver, count: int, *, acknowledge: bool = True) -> list[Reading]:
    found: list[Reading] = []
    while len(found) < count:
        readings = await driver.read()
        found += readings
        if acknowledge:
            await driver.acknowledge([reading.token for reading in readings if reading.token is not None])
    return found


def pulses(readings: list[Reading]) -> list[Any]:
    return [reading.value for reading in readings if reading.quantity == "pulses"]


def test_readings_have_the_names_that_the_device_gives_and_the_settings_shape(tmp_path: Path) -> None:
    async def test() -> None:
        async with plugged(tmp_path / "port"):
            driver = driver_of(tmp_path / "port", sensor="{driver}:{device}:{sensor}")
            await driver.open()
            temperature, count = (await take(driver, 2))[:2]
            assert (temperature.sensor, temperature.quantity, temperature.unit) == (
                "mcu:model-1:boiler", "temperature", "Cel",
            )  # fmt: skip
            assert (count.quantity, count.value) == ("pulses", 0)
            assert driver.counters["samples"] >= 2
            await driver.close()

    run(test)


def test_a_device_keeps_what_is_not_acknowledged_and_the_next_process_takes_it_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with plugged(tmp_path / "port") as plug:
            first = driver_of(tmp_path / "port")
            await first.open()
            stored = await take(first, 6)
            unstored = await take(first, 4, acknowledge=False)
            await first.close()
            second = driver_of(tmp_path / "port")
            tokens = [reading.token for reading in stored + unstored if reading.token is not None]
            lost = [reading.token for reading in unstored if reading.token is not None]
            second.recall(tokens, lost)
            await second.open()
            again = await take(second, 20)
            await second.close()
            total = pulses(stored) + pulses(again)
            assert total == list(range(len(total)))
            assert plug.device.dropped == 0

    run(test)


@pytest.mark.slow
def test_an_outage_is_reported_with_its_length_while_the_port_stays_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with plugged(tmp_path / "port") as plug:
            changes: list[DeviceChange] = []
            async with contextlib.aclosing(supervise(driver_of(tmp_path / "port"), NEVER_BY_ITSELF)) as events:
                async for event in events:
                    if not isinstance(event, DeviceChange):
                        continue
                    changes.append(event)
                    plug.device.is_lost = len(changes) == 1
                    if len(changes) == 3:
                        break
            assert [change.after for change in changes] == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP]
            assert "the device does not answer" in changes[1].reason
            assert "no frame received for 3 s" in changes[1].reason

    run(test)


def test_where_the_port_is_a_pattern_the_device_is_found_by_its_own_word_wherever_it_is_plugged_in(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with (
            plugged(tmp_path / "ttyACM0", ModelDevice("another-device")),
            plugged(tmp_path / "ttyACM1", ModelDevice("ours")) as ours,
        ):
            driver = driver_of(tmp_path / "ttyACM*", device_id="ours")
            changes = []
            async with contextlib.aclosing(supervise(driver, NEVER_BY_ITSELF)) as events:
                async for event in events:
                    if not isinstance(event, DeviceChange):
                        assert all(reading.sensor == "ours/boiler" for reading in event)
                        continue
                    changes.append(event.after)
                    if len(changes) == 1:
                        ours.port.unplug()
                    elif len(changes) == 2:
                        ours.port.link = tmp_path / "ttyACM7"
                        ours.port.plug()
                    else:
                        break
            assert changes == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP]

    run(test)


def test_a_pattern_that_no_port_fits_says_what_was_tried(tmp_path: Path) -> None:
    async def test() -> None:
        async with plugged(tmp_path / "ttyACM0", ModelDevice("another-device")):
            driver = driver_of(tmp_path / "ttyACM*", device_id="ours")
            with pytest.raises(DeviceError, match="another device responds: another-device, not ours"):
                await driver.open()
            with pytest.raises(DeviceError, match="no such port"):
                await driver_of(tmp_path / "ttyUSB*", device_id="ours").open()

    run(test)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"port": "/dev/ttyACM*"}, "device_id: missing; required where port is a pattern"),
        ({"sensor": "{room}"}, "sensor: a placeholder is wrong"),
        ({"sensor": "{sensor:>99999999999}"}, "sensor: a placeholder is wrong: only a name is allowed in braces"),
        ({"baudrate": 1}, "baudrate: 1 is not between"),
    ],
)
def test_wrong_settings_are_reported(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        build("mcu", {"port": "/dev/ttyACM0", **settings})


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "key").write_text("00" * 32)
        (tmp_path / "key").chmod(0o644)
        async with plugged(tmp_path / "port"):
            driver = driver_of(tmp_path / "port", key_file=str(tmp_path / "key"))
            with pytest.raises(DeviceError, match=r"mcu: the key cannot be used: .*others can read"):
                await driver.open()

    run(test)


def test_what_the_device_logs_is_in_the_gateways_log_and_too_much_of_it_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with plugged(tmp_path / "port") as plug:
            driver = driver_of(tmp_path / "port")
            await driver.open()
            await take(driver, 2)
            for number in range(MAX_LINES + 20):
                plug.device.log(f"valve {number} stuck")
            await take(driver, 20)
            await driver.close()

    run(test)
    said = [record for record in caplog.records if record.getMessage().startswith("device log: valve")]
    assert said[0].getMessage() == "device log: valve 0 stuck; driver=mcu"
    assert said[0].levelno == logging.WARNING
    assert len(said) == MAX_LINES


def test_a_flood_of_garbage_is_trouble_and_costs_no_more_than_is_allowed(tmp_path: Path) -> None:
    async def test() -> None:
        port = PtyPort(tmp_path / "port")
        driver = driver_of(tmp_path / "port", max_bytes_per_s=10_000)
        await driver.open()

        async def pour() -> None:
            while True:
                port.send(bytes([7]) * 500 + b"\0")
                await asyncio.sleep(0.001)

        pouring = asyncio.create_task(pour())
        while "more than 10000 bytes/s" not in driver.trouble:
            await driver.read()
        assert driver.outage.startswith("mcu: the device does not answer")
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        await driver.close()
        assert driver.quality.trouble
        port.unplug()

    run(test)
