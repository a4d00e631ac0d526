"""Simulated sensors: any rate, any number of signals, faults by schedule or on demand."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import DeviceError
from drivers.health import Quality
from drivers.reading import Reading, now_ms
from drivers.simulated.signals import Signal, make_source
from runtime.settings import Between, NotEmpty, Seconds, check_settings

FaultKind = Literal["unplug", "stall", "garbage", "flood"]
FAULTS: Final = ("unplug", "stall", "garbage", "flood")
_POLL_S: Final = 0.1
_FLOOD_FACTOR: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    after_s: Annotated[float, Between(0, 1e9)]  # since the first open
    lasts_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSettings:
    signals: Annotated[tuple[Signal, ...], NotEmpty()]
    rate_hz: Annotated[float, Between(0.0001, 100_000)] = 1.0  # of each signal
    seed: int = 1
    silence_s: Seconds = 10.0  # a stall becomes a failure after this
    faults: tuple[Fault, ...] = ()
    fault_file: Path | None = None  # while it contains the name of a fault, that fault is active


def build(name: str, settings: Mapping[str, object], path: str = "") -> "SimulatedDriver":
    return SimulatedDriver(name, check_settings(SimulatedSettings, settings, path))


class SimulatedDriver(Driver):
    """Each tick of the rate gives one reading per signal, stamped with its own time; late ticks come in batches."""

    KIND = "simulated"

    def __init__(self, name: str, settings: SimulatedSettings, clock_ms: Callable[[], int] = now_ms) -> None:
        super().__init__(name)
        self.settings = settings
        self.quality = Quality()
        self._clock_ms = clock_ms
        self._sources = [
            (signal, make_source(signal, f"{settings.seed}/{i}")) for i, signal in enumerate(settings.signals)
        ]
        self._first_open_ms: int | None = None
        self._start_ms = 0
        self._tick = 0
        self._is_open = False

    @property
    def trouble(self) -> str:
        if self._fault() == "flood":
            return "simulated flood"
        return self.quality.trouble

    async def open(self) -> None:
        self._start_ms = self._clock_ms()
        self._tick = 0
        if self._first_open_ms is None:
            self._first_open_ms = self._start_ms
        self._refuse_while_unplugged()
        self._is_open = True

    async def read(self) -> list[Reading]:
        if not self._is_open:
            raise DeviceError(f"{self.name}: the simulated device is not open; open it before reading")
        await self._wait_while_stalled()
        self._refuse_while_unplugged()
        if self._fault() == "garbage":
            self.quality.damaged("simulated garbage")
            self.rejects.note(self.name, "simulated garbage", b"", now_ms())
            await asyncio.sleep(min(_POLL_S, 1 / self.settings.rate_hz))
            return []
        self.quality.good()
        await asyncio.sleep(max(0, self._tick_ms(self._tick) - self._clock_ms()) / 1000)
        return self._due_readings()

    async def close(self) -> None:
        self._is_open = False

    def _due_readings(self) -> list[Reading]:
        flood = _FLOOD_FACTOR if self._fault() == "flood" else 1
        due = int((self._clock_ms() - self._start_ms) * self.settings.rate_hz / 1000) + 1 - self._tick
        limit = max(1, MAX_READINGS_PER_READ // len(self._sources) // flood)
        readings = []
        for _ in range(min(max(due, 1), limit)):
            readings += self._tick_readings() * flood
            self._tick += 1
        return readings[:MAX_READINGS_PER_READ]

    def _tick_readings(self) -> list[Reading]:
        at_ms = self._tick_ms(self._tick)
        return [
            Reading(
                self.name,
                signal.quantity,
                source(at_ms),
                signal.unit,
                taken_at_ms=at_ms,
                mime_type="image/jpeg" if signal.kind == "blob" else "",
            )
            for signal, source in self._sources
        ]

    def _tick_ms(self, tick: int) -> int:
        return self._start_ms + int(tick * 1000 / self.settings.rate_hz)

    async def _wait_while_stalled(self) -> None:
        waited_s = 0.0
        while self._fault() == "stall":
            if waited_s >= self.settings.silence_s:
                raise DeviceError(
                    f"{self.name}: no reading from the simulation for {waited_s:g} s; wait for its fault to end"
                )
            await asyncio.sleep(_POLL_S)
            waited_s += _POLL_S

    def _refuse_while_unplugged(self) -> None:
        if self._fault() == "unplug":
            raise DeviceError(f"{self.name}: the simulated device is unplugged; wait for its fault to end")

    def _fault(self) -> str:
        """The active fault, or ""."""
        if self.settings.fault_file is not None and (word := _first_word(self.settings.fault_file)) in FAULTS:
            return word
        age_s = (self._clock_ms() - (self._first_open_ms or self._clock_ms())) / 1000
        on = (fault.kind for fault in self.settings.faults if 0 <= age_s - fault.after_s < fault.lasts_s)
        return next(on, "")


def _first_word(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(64).strip()
    except OSError:
        return ""
