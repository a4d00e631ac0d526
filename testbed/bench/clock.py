"""A controlled clock for an agent: wrong, set, drifting or faster, as the scenario requires.

A small library (`clock_shim.c`, built here by the C compiler) is preloaded into the agent and answers for the kernel,
also about whether the clock is synchronised. What it answers stands in a file that both have mapped.
"""

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Final

from testbed.errors import BenchError

SOURCE: Final = Path(__file__).with_name("clock_shim.c")
_HAND: Final = struct.Struct("=Qqqqdq")
_SERIAL: Final = struct.Struct("=Q")
NANOS: Final = 1_000_000_000
RIGHT_WITHIN_US: Final = 1_000
NEVER_SET_US: Final = 16_000_000
START_OF_1970_S: Final = 60


class HeldClock:
    """Right, and known to be, until something is done to it."""

    def __init__(self, folder: Path) -> None:
        """Raises: BenchError without a C compiler."""
        self._library = _build(folder)
        self._path = folder / "clock"
        self._path.write_bytes(bytes(_HAND.size))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _HAND.size)
        self._serial = 0
        self._rate = 1.0
        self._write(time.time_ns(), _since_boot_ns(), 1.0, RIGHT_WITHIN_US)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "HEADGATE_TESTBED_CLOCK": str(self._path)}

    def start_in_1970(self) -> None:
        """As a machine without a battery does: nobody knows the time."""
        self._write(START_OF_1970_S * NANOS, _since_boot_ns(), 1.0, NEVER_SET_US)

    def step(self, by_s: float) -> None:
        """Someone sets the wall clock. What is known about it stays."""
        realtime_ns, boottime_ns = self._now()
        self._write(realtime_ns + round(by_s * NANOS), boottime_ns, self._rate, self._max_error_us)

    def run_at(self, rate: float) -> None:
        self._write(*self._now(), rate, self._max_error_us)

    def set_right(self) -> None:
        """The wall clock is right from now on. The clock since boot goes on from where it is: it is never set."""
        self._write(time.time_ns(), self._now()[1], 1.0, RIGHT_WITHIN_US)

    def _now(self) -> tuple[int, int]:
        passed_ns = round((time.monotonic_ns() - self._changed_at_ns) * self._rate)
        return self._realtime_ns + passed_ns, self._boottime_ns + passed_ns

    def _write(self, realtime_ns: int, boottime_ns: int, rate: float, max_error_us: int) -> None:
        self._changed_at_ns = time.monotonic_ns()
        self._realtime_ns, self._boottime_ns = realtime_ns, boottime_ns
        self._rate, self._max_error_us = rate, max_error_us
        values = (self._changed_at_ns, realtime_ns, boottime_ns, rate, max_error_us)
        _SERIAL.pack_into(self._map, 0, self._serial + 1)  # odd: whoever reads now reads again
        _HAND.pack_into(self._map, 0, self._serial + 1, *values)
        self._serial += 2
        _SERIAL.pack_into(self._map, 0, self._serial)


def _since_boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _build(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BenchError("setting an agent's clock needs a C compiler; apt-get install gcc libc6-dev")
    library = folder / "clock_shim.so"
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{SOURCE.name} cannot be built: {done.stderr.strip()}")
    return library
