"""Devices on a line that flood, stall, send garbage, or come back under another name: bounded, and reported once."""

import asyncio
import contextlib
import importlib
import resource
import shutil
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drivers import DeviceChange, DeviceError, DeviceState, supervise
from drivers.serial_driver import SerialDriver
from drivers.serial_line.driver import SerialLineDecoder, SerialLineSettings
from runtime.backoff import Backoff
from runtime.settings import check_settings
from testbed.cable import PtyPort
from tests.support.patience import PATIENCE_S
from tests.support.within import within

QUICK = Backoff(first_s=0.02, max_s=0.05)
TABLE = {"format": "csv", "columns": ["t"], "quantities": {"t": {"unit": "Cel"}}, "silence_s": 0.5}


def driver_of(port: str, root: Path = Path("/"), **more: Any) -> SerialDriver[SerialLineDecoder]:
    settings = check_settings(SerialLineSettings, {"port": port, **TABLE, **more})
    return SerialDriver("boiler", settings, lambda: SerialLineDecoder("boiler", settings), root)


def with_cable(folder: Path, test: Callable[[PtyPort], Awaitable[None]]) -> None:
    async def run() -> None:
        cable = PtyPort(folder / "port")
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(cable)
        finally:
            cable.unplug()

    asyncio.run(run())


async def pour(cable: PtyPort, data: bytes) -> None:
    """For ever, as fast as the line takes it."""
    while True:
        if not cable.send(data):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def pouring(cable: PtyPort, data: bytes) -> AsyncIterator[None]:
    task = asyncio.create_task(pour(cable, data))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_silent_device_is_an_error_that_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        driver = driver_of(str(cable.link), silence_s=0.05)
        await driver.open()
        with pytest.raises(DeviceError) as caught:
            await driver.read()
        assert str(caught.value) == f"boiler: no reading on {cable.link} for 0.05 s; check cable and baudrate"
        await driver.close()

    with_cable(tmp_path, test)


def test_garbage_alone_ends_in_an_error_that_shows_it(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        driver = driver_of(str(cable.link))
        await driver.open()
        async with pouring(cable, b"\xfe\xff~~\n"):
            with pytest.raises(DeviceError, match=r"damaged data: .*not a number.*check cable and baudrate"):
                await driver.read()
        await driver.close()

    with_cable(tmp_path, test)


def test_a_flood_costs_bounded_memory_and_rate_and_is_reported_once(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        changes, count = [], 0
        driver = driver_of(str(cable.link), max_bytes_per_s=5_000)
        importlib.import_module("serial")  # its code is not what is measured
        tracemalloc.start()
        begun_s = time.monotonic()
        async with pouring(cable, b"21.5\n" * 200), contextlib.aclosing(supervise(driver, QUICK)) as events:
            async for event in events:
                if isinstance(event, DeviceChange):
                    changes.append(event.after)
                else:
                    count += len(event)
                if count > 3_000:
                    break
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert changes == [DeviceState.UP, DeviceState.DEGRADED]
        assert count * 5 <= 5_000 * (time.monotonic() - begun_s + 1) + 2 * 4096
        assert peak_bytes < 2_000_000

    with_cable(tmp_path, test)


def test_a_flood_without_any_line_costs_bounded_memory_and_little_time(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        driver = driver_of(str(cable.link), silence_s=1.0)
        await driver.open()
        importlib.import_module("serial")  # its code is not what is measured
        tracemalloc.start()
        before_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        await asyncio.gather(_fails(driver), _pour_for(cable, b"\xaa" * 4096, 0.8))
        used_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before_s
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 1_000_000
        assert used_s < 1.0
        assert driver.quality.damaged_frames == 1
        await driver.close()

    with_cable(tmp_path, test)


async def _fails(driver: SerialDriver[SerialLineDecoder]) -> None:
    with pytest.raises(DeviceError, match="no reading"):
        await driver.read()


async def _pour_for(cable: PtyPort, data: bytes, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await within(seconds, pour(cable, data))


def test_one_device_in_trouble_leaves_another_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    async def test(cable: PtyPort) -> None:
        other = PtyPort(tmp_path / "other/port")
        noisy, calm = driver_of(str(cable.link), silence_s=5), driver_of(str(other.link))
        await noisy.open()
        await calm.open()
        reading = asyncio.create_task(noisy.read())
        async with pouring(cable, b"\xff" * 1000):
            for value in range(20):
                other.send(b"%d\n" % value)
                assert [each.value for each in await calm.read()] == [value]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await noisy.close()
        await calm.close()
        other.unplug()

    with_cable(tmp_path, test)


def test_a_port_in_use_by_another_program_is_reported(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        first, second = driver_of(str(cable.link)), driver_of(str(cable.link))
        await first.open()
        with pytest.raises(DeviceError, match=r"boiler: .* another program has it open; stop that program"):
            await second.open()
        await first.close()

    with_cable(tmp_path, test)


def test_bytes_that_make_a_device_speak_are_sent_on_opening(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        driver = driver_of(str(cable.link), send_on_open_hex="3f0d")
        await driver.open()
        assert cable.received() == b"?\r"
        await driver.close()

    with_cable(tmp_path, test)


def test_a_serial_server_is_read_over_tcp_and_its_end_is_an_error() -> None:
    async def run() -> None:
        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"21.5\n22.5\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        driver = driver_of(f"tcp://127.0.0.1:{port}")
        await driver.open()
        assert [reading.value for reading in await driver.read()] == [21.5, 22.5]
        with pytest.raises(DeviceError, match=r"boiler: tcp://.* is gone"):
            await driver.read()
        server.close()
        await server.wait_closed()
        with pytest.raises(DeviceError, match=r"boiler: tcp://.* does not answer .*; check address"):
            await driver.open()

    asyncio.run(run())


def name_in_tree(root: Path, cable: PtyPort, tty: str) -> None:
    """Let the kernel call the other end of a cable `tty`, a USB device with serial number A10K."""
    usb = root / "sys/devices/usb1/1-1"
    port = usb / "1-1:1.0" / tty
    port.mkdir(parents=True)
    for name, text in {"idVendor": "0403", "idProduct": "6001", "serial": "A10K"}.items():
        (usb / name).write_text(text)
    (usb / "1-1:1.0/bInterfaceNumber").write_text("00")
    (root / "sys/class/tty" / tty).mkdir(parents=True)
    (root / "sys/class/tty" / tty / "device").symlink_to(port)
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev" / tty).symlink_to(cable.link.readlink())


def test_a_device_that_is_plugged_in_elsewhere_is_found_at_once_by_its_serial_number(tmp_path: Path) -> None:
    async def test(cable: PtyPort) -> None:
        root = tmp_path / "root"
        name_in_tree(root, cable, "ttyUSB0")
        slow = Backoff(first_s=60, max_s=60)  # so that only noticing its return can bring it back
        changes: list[DeviceState] = []
        stream = supervise(driver_of("/dev/ttyUSB0", root), slow)
        async with pouring(cable, b"21.5\n"), contextlib.aclosing(stream) as events:
            async for event in events:
                if not isinstance(event, DeviceChange):
                    continue
                changes.append(event.after)
                if len(changes) == 1:
                    unplug_tree(root, cable)
                elif len(changes) == 2:
                    cable.plug()
                    name_in_tree(root, cable, "ttyUSB7")
                else:
                    break
        assert changes == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP]

    with_cable(tmp_path, test)


def unplug_tree(root: Path, cable: PtyPort) -> None:
    cable.unplug()
    for folder in ("sys", "dev"):
        shutil.rmtree(root / folder)
