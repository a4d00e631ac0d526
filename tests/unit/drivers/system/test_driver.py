"""Rates come from two looks at the counters."""

import asyncio
import threading
from pathlib import Path

import pytest

from drivers.reading import Scalar
from drivers.system.driver import build
from tests.support.driver_samples import write_tree
from tests.support.patience import PATIENCE_S

NET = "  eth0: {} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0\n"
TREE = {
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 250 kB\n",
    "proc/net/dev": NET.format(1000, 500),
    "sys/class/thermal/thermal_zone0/temp": "48312\n",
}


def test_use_and_traffic_are_those_since_the_last_look(tmp_path: Path) -> None:
    async def run() -> dict[str, tuple[Scalar | bytes, str]]:
        write_tree(tmp_path, TREE)
        driver = build("gateway", {"root": str(tmp_path), "interval_s": 0.02})
        await driver.open()
        await driver.read()
        write_tree(tmp_path, {"proc/stat": "cpu  150 0 150 900 0 0 0 0 0 0\n", "proc/net/dev": NET.format(9000, 500)})
        found = {reading.quantity: (reading.value, reading.unit) for reading in await driver.read()}
        await driver.close()
        return found

    found = asyncio.run(run())
    assert found["cpu_use"] == (50.0, "%")
    assert found["memory_use"] == (75.0, "%")
    assert found["memory_available"] == (256_000, "By")
    assert found["cpu_temperature"] == (48.312, "Cel")
    assert found["sent_eth0"] == (0.0, "By/s")
    received, unit = found["received_eth0"]
    assert isinstance(received, float)
    assert received > 0
    assert unit == "By/s"
    assert {"disk_free", "disk_use"} <= found.keys()


def test_a_disk_that_never_responds_blocks_no_other_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel does with a share whose server is gone."""
    answer = threading.Event()

    def hang(_: object) -> None:
        answer.wait(PATIENCE_S)
        raise OSError(5, "Input/output error")

    async def run() -> int:
        write_tree(tmp_path, TREE)
        driver = build("gateway", {"root": str(tmp_path), "interval_s": 0.02})
        await driver.open()
        reading = asyncio.create_task(driver.read())
        others = 0
        while not reading.done() and others < 20:
            others += 1
            await asyncio.sleep(0.001)
        answer.set()
        await reading
        return others

    monkeypatch.setattr("os.statvfs", hang)
    assert asyncio.run(run()) == 20
