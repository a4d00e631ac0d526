"""The gateway's own health: processor, memory, disk, temperature, network, from the kernel's files."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drivers.errors import DeviceError
from drivers.kernel_files import numeric_file, read_kernel_file
from drivers.polled import BlockingCall, PolledDriver
from drivers.reading import MAX_NAME_CHARS, Reading, now_ms
from drivers.system.proc import (
    CpuTimes,
    Traffic,
    parse_cpu,
    parse_load,
    parse_memory,
    parse_traffic,
    parse_uptime,
)
from runtime.settings import Seconds, check_settings

POLL_TIMEOUT_S: Final = 10.0
Measured = tuple[str, float | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    interval_s: Seconds = 60.0
    disks: tuple[Path, ...] = (Path("/"),)
    root: Path = Path("/")  # where /proc and /sys of the host are, for a gateway in a container


def build(name: str, settings: Mapping[str, object], path: str = "") -> "SystemDriver":
    return SystemDriver(name, check_settings(SystemSettings, settings, path))


class SystemDriver(PolledDriver):
    KIND = "system"

    def __init__(self, name: str, settings: SystemSettings) -> None:
        super().__init__(name, settings.interval_s)
        self.settings = settings
        self._call = BlockingCall(f"{name}: one of its disks", POLL_TIMEOUT_S)
        self._cpu: CpuTimes | None = None
        self._traffic: dict[str, Traffic] = {}
        self._traffic_at_ms = 0

    async def connect(self) -> None:
        if not (self.settings.root / "proc/stat").is_file():
            raise DeviceError(f"{self.name}: {self.settings.root}/proc/stat is absent; check the setting root")
        self._measure_cpu()
        self._measure_network(now_ms())

    async def poll(self) -> list[Reading]:
        """Measure in a thread: a network file system whose server is gone may block for ever."""
        return await self._call.run(self._measure)

    def _measure(self) -> list[Reading]:
        at_ms = now_ms()
        measured = [*self._measure_cpu(), *self._measure_memory(), *self._measure_disks(), *self._measure_temperature()]
        measured += self._measure_network(at_ms)
        found = [(quantity, value, unit) for quantity, value, unit in measured if value is not None]
        if self._cpu is None:
            raise DeviceError(f"{self.name}: {self.settings.root}/proc is unreadable; check the setting root")
        return [Reading(self.name, quantity, value, unit, taken_at_ms=at_ms) for quantity, value, unit in found]

    def _measure_cpu(self) -> list[Measured]:
        now, before = parse_cpu(self._file("proc/stat")), self._cpu
        self._cpu = now
        use = now.use_percent_since(before) if now and before else None
        return [
            ("cpu_use", use, "%"),
            ("load_1min", parse_load(self._file("proc/loadavg")), ""),
            ("uptime", parse_uptime(self._file("proc/uptime")), "s"),
        ]

    def _measure_memory(self) -> Iterator[Measured]:
        memory = parse_memory(self._file("proc/meminfo"))
        available, total = memory.get("MemAvailable"), memory.get("MemTotal")
        yield ("memory_available", available, "By")
        if available is not None and total:
            yield ("memory_use", round(100 * (1 - available / total), 1), "%")

    def _measure_disks(self) -> Iterator[Measured]:
        for disk in self.settings.disks:
            try:
                stat = os.statvfs(disk)
            except OSError:
                continue
            ending = (
                "" if disk == Path("/") else "_" + disk.as_posix().strip("/").replace("/", "_")[: MAX_NAME_CHARS // 2]
            )
            yield (f"disk_free{ending}", stat.f_bavail * stat.f_frsize, "By")
            if stat.f_blocks:
                yield (f"disk_use{ending}", round(100 * (1 - stat.f_bfree / stat.f_blocks), 1), "%")

    def _measure_temperature(self) -> Iterator[Measured]:
        """The first thermal zone: on a Pi, and on most boards, the processor."""
        millidegrees = numeric_file(self.settings.root / "sys/class/thermal/thermal_zone0/temp")
        yield ("cpu_temperature", None if millidegrees is None else millidegrees / 1000, "Cel")

    def _measure_network(self, at_ms: int) -> list[Measured]:
        now, before = parse_traffic(self._file("proc/net/dev")), self._traffic
        passed_s = (at_ms - self._traffic_at_ms) / 1000
        self._traffic, self._traffic_at_ms = now, at_ms
        if passed_s <= 0:
            return []
        return [rate for name in now.keys() & before.keys() for rate in _rates(name, before[name], now[name], passed_s)]

    def _file(self, name: str) -> str:
        return read_kernel_file(self.settings.root / name) or ""


def _rates(interface: str, before: Traffic, now: Traffic, passed_s: float) -> list[Measured]:
    received, sent = now.received - before.received, now.sent - before.sent
    if received < 0 or sent < 0:  # the interface was created again
        return []
    return [
        (f"received_{interface}", round(received / passed_s, 1), "By/s"),
        (f"sent_{interface}", round(sent / passed_s, 1), "By/s"),
    ]
