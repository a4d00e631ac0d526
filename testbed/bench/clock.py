"""A controlled clock for an agent: wrong, set, drifting or faster, as the scenario requires.

A small library (`clock_shim.c`, built here by the C compiler) is preloaded into the agent and replaces the clock calls
of the kernel, including the one for the synchronisation state. Both processes map a file with its values.
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
_VALUES: Final = struct.Struct("=Qqqqdq")
_SERIAL: Final = struct.Struct("=Q")
NANOS: Final = 1_000_000_000
SYNCHRONISED_ERROR_US: Final = 1_000
UNSYNCHRONISED_ERROR_US: Final = 16_000_000
START_OF_1970_S: Final = 60


class ControlledClock:
    """The clock of one agent: correct and synchronised until it is changed."""

    def __init__(self, folder: Path) -> None:
        """Raises: BenchError without a C compiler."""
        self._library = _build(folder)
        self._path = folder / "clock"
        self._path.write_bytes(bytes(_VALUES.size))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _VALUES.size)
        self._serial = 0
        self._rate = 1.0
        self._write(time.time_ns(), _since_boot_ns(), 1.0, SYNCHRONISED_ERROR_US)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "HEADGATE_TESTBED_CLOCK": str(self._path)}

    def start_in_1970(self) -> None:
        """Start in 1970 and not synchronised, like a machine without a battery."""
        self._write(START_OF_1970_S * NANOS, _since_boot_ns(), 1.0, UNSYNCHRONISED_ERROR_US)

    def step(self, by_s: float) -> None:
        """Change the wall clock. Whether it is synchronised does not change."""
        realtime_ns, boottime_ns = self._now()
        self._write(realtime_ns + round(by_s * NANOS), boottime_ns, self._rate, self._max_error_us)

    def run_at(self, rate: float) -> None:
        self._write(*self._now(), rate, self._max_error_us)

    def synchronise(self) -> None:
        """Set and synchronise the wall clock. The clock since boot continues: it is never set."""
        self._write(time.time_ns(), self._now()[1], 1.0, SYNCHRONISED_ERROR_US)

    def _now(self) -> tuple[int, int]:
        passed_ns = round((time.monotonic_ns() - self._changed_at_ns) * self._rate)
        return self._realtime_ns + passed_ns, self._boottime_ns + passed_ns

    def _write(self, realtime_ns: int, boottime_ns: int, rate: float, max_error_us: int) -> None:
        self._changed_at_ns = time.monotonic_ns()
        self._realtime_ns, self._boottime_ns = realtime_ns, boottime_ns
        self._rate, self._max_error_us = rate, max_error_us
        values = (self._changed_at_ns, realtime_ns, boottime_ns, rate, max_error_us)
        _SERIAL.pack_into(self._map, 0, self._serial + 1)  # odd: a reader reads again
        _VALUES.pack_into(self._map, 0, self._serial + 1, *values)
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
