"""The host's session and the C library at the two ends of a line, in virtual time."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.cable import CLEAN, Faults
from tests.support.c_device import OK, CDevice, running
from tests.support.firmware_bench import Bench
from tests.support.model_device import ModelDevice

pytestmark = pytest.mark.needs("gcc", "gcc")

KEY = bytes(range(32))
BOOT_ID = b"one boot"
SOON_MS = 1000.0  # within which readings flow again


class CModelDevice(ModelDevice):
    """Speaks and hears as the C library does."""

    def __init__(self, inside: CDevice) -> None:
        super().__init__()
        self.boot_id = BOOT_ID
        self.measured = {BOOT_ID: []}
        self._inside = inside
        self._said = b""

    def measure(self, value: int, now_ms: float) -> None:
        self._inside.set_now(int(now_ms))
        if self._inside.record([(1, value)]) == OK:
            self.measured[BOOT_ID].append(value)

    def receive(self, data: bytes, now_ms: float) -> None:
        self._inside.set_now(int(now_ms))
        if not self.is_lost:
            self._inside.receive(data)

    def tick(self, now_ms: float) -> None:
        self._inside.set_now(int(now_ms))
        self._inside.set_room(10_000)
        self._said += self._inside.poll()

    def take_output(self) -> bytes:
        said, self._said = self._said, b""
        return b"" if self.is_lost else said


@contextmanager
def line_to(library: ctypes.CDLL, *, faults: Faults = CLEAN, key: bytes | None = None) -> Iterator[Bench]:
    with running(library, boot_id=BOOT_ID, key=key) as inside:
        yield Bench(CModelDevice(inside), faults=faults, key=key)


def committed(bench: Bench) -> list[float]:
    return [each.value for each in bench.committed]


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "authenticated"])
@pytest.mark.parametrize("away_ms", [100, 500, 1000, 2900, 3100, 4600, 6200, 8000])
def test_readings_flow_again_within_a_second_of_the_cables_return(
    c_library: ctypes.CDLL, away_ms: float, key: bytes | None
) -> None:
    """Also where only one end has noticed that the other was away: both watch for three seconds."""
    with line_to(c_library, key=key) as bench:
        bench.run(1000, measure_every_ms=100)
        bench.device.is_lost = True
        bench.run(away_ms, measure_every_ms=away_ms / 5)
        bench.device.is_lost = False
        before = len(bench.measured)
        bench.run(SOON_MS)
        assert len(bench.measured) > before
        bench.run(SOON_MS)
        assert committed(bench) == bench.device.measured[BOOT_ID]


@pytest.mark.parametrize("at_ms", range(0, 1000, 90))
def test_a_host_that_opens_the_port_anew_has_readings_within_a_second_whatever_the_device_thinks(
    c_library: ctypes.CDLL, at_ms: int
) -> None:
    with line_to(c_library) as bench:
        bench.run(2000 + at_ms, measure_every_ms=100)
        bench.kill_host()
        before = len(bench.measured)
        bench.device.measure(len(bench.device.measured[BOOT_ID]), bench.now_ms)
        bench.run(SOON_MS)
        assert len(bench.measured) > before
        assert committed(bench) == bench.device.measured[BOOT_ID]


def test_what_is_not_committed_stays_with_the_device_and_goes_to_the_next_host(c_library: ctypes.CDLL) -> None:
    with line_to(c_library) as bench:
        bench.is_committing = False
        bench.run(2000, measure_every_ms=100)
        bench.run(100)
        assert len(bench.measured) == 20
        bench.kill_host()
        bench.is_committing = True
        bench.run(2 * SOON_MS)
        assert committed(bench) == list(range(20))


@pytest.mark.parametrize("faults", [Faults(bit_flips=0.001), Faults(damaged_frames=0.05)], ids=["flips", "damaged"])
def test_noise_costs_time_and_not_one_reading(c_library: ctypes.CDLL, faults: Faults) -> None:
    with line_to(c_library, faults=faults) as bench:
        bench.run(6000, measure_every_ms=200)
        bench.to_host.spoiler.faults = bench.to_device.spoiler.faults = CLEAN
        bench.run(4000)
        assert committed(bench) == list(range(30))
