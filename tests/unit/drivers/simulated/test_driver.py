"""Rates and faults, by a clock that the test moves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drivers.errors import DeviceError
from drivers.reading import Reading
from drivers.simulated.driver import SimulatedDriver, SimulatedSettings
from runtime.settings import check_settings

START_MS = 1_700_000_000_000


class Simulation:
    def __init__(self, **settings: Any) -> None:
        table = {"signals": [{"kind": "walk", "quantity": "x"}], **settings}
        self.now_ms = START_MS
        self.driver = SimulatedDriver("sim", check_settings(SimulatedSettings, table), lambda: self.now_ms)

    def open(self) -> None:
        asyncio.run(self.driver.open())

    def read(self, after_ms: int = 0) -> list[Reading]:
        self.now_ms += after_ms
        return asyncio.run(self.driver.read())


def test_late_ticks_come_in_one_batch_each_with_its_own_time() -> None:
    simulation = Simulation(rate_hz=10)
    simulation.open()
    assert [reading.taken_at_ms - START_MS for reading in simulation.read()] == [0]
    assert [reading.taken_at_ms - START_MS for reading in simulation.read(500)] == [100, 200, 300, 400, 500]


def test_a_great_rate_is_kept_in_bounded_batches() -> None:
    simulation = Simulation(rate_hz=100_000)
    simulation.open()
    simulation.now_ms += 100
    batches = [len(simulation.read()) for _ in range(3)]
    assert batches == [4096, 4096, 10_001 - 2 * 4096]


def test_faults_come_and_go_by_the_clock() -> None:
    simulation = Simulation(faults=[{"kind": "unplug", "after_s": 10, "lasts_s": 5}])
    simulation.open()
    simulation.read()
    with pytest.raises(DeviceError, match="unplugged"):
        simulation.read(10_000)
    with pytest.raises(DeviceError, match="unplugged"):
        simulation.open()
    simulation.now_ms += 5_000
    simulation.open()
    assert simulation.read()


def test_faults_come_on_demand(tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    simulation = Simulation(fault_file=str(fault), rate_hz=1000, silence_s=0.05)
    simulation.open()
    fault.write_text("stall\n")
    with pytest.raises(DeviceError, match="no reading"):
        simulation.read()
    fault.write_text("flood")
    assert len(simulation.read()) == 50
    assert simulation.driver.trouble
    fault.write_text("garbage")
    for _ in range(20):
        assert simulation.read() == []
    assert "damaged" in simulation.driver.trouble
    fault.unlink()
    assert simulation.read()
