"""Plantower PMS5003 (and PMS7003) particle sensors, in active mode.

| offset | bytes | content, big-endian |
|---|---|---|
| 0 | 4 | `42 4d 00 1c`: start, and 28 bytes to follow |
| 4 | 6 | PM1.0, PM2.5, PM10 in µg/m³, factory calibration (CF=1) |
| 10 | 6 | the same under atmospheric conditions |
| 16 | 12 | particles larger than 0.3, 0.5, 1.0, 2.5, 5.0, 10 µm in 0.1 litre |
| 28 | 2 | version, error code |
| 30 | 2 | sum of the previous 30 bytes |
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from drivers.framing import Damaged
from drivers.reading import Reading
from drivers.serial_driver import SerialDriver, SerialSettings
from runtime.settings import Between, Seconds, check_settings

START: Final = b"\x42\x4d\x00\x1c"
FRAME_BYTES: Final = 32
_FIELDS: Final = struct.Struct(">4x12HBBH")
_PER_CM3: Final = 0.01  # from particles in 0.1 litre

QUANTITIES: Final = (
    ("pm1_factory", "ug/m3"),
    ("pm2_5_factory", "ug/m3"),
    ("pm10_factory", "ug/m3"),
    ("pm1", "ug/m3"),
    ("pm2_5", "ug/m3"),
    ("pm10", "ug/m3"),
    ("particles_over_0_3um", "/cm3"),
    ("particles_over_0_5um", "/cm3"),
    ("particles_over_1um", "/cm3"),
    ("particles_over_2_5um", "/cm3"),
    ("particles_over_5um", "/cm3"),
    ("particles_over_10um", "/cm3"),
)


def read_frame(frame: bytes) -> list[tuple[str, float, str]]:
    """(quantity, value, unit) of one frame. Raises ValueError if its sum is wrong."""
    *values, _version, error_code, expected_sum = _FIELDS.unpack(frame)
    if sum(frame[:30]) != expected_sum:
        raise ValueError("wrong sum")
    found = [
        (name, round(value * _PER_CM3, 2) if unit == "/cm3" else float(value), unit)
        for (name, unit), value in zip(QUANTITIES, values, strict=True)
    ]
    return [*found, ("error_code", float(error_code), "")] if error_code else found


class Pms5003Decoder:
    """Decodes at most one set of readings per interval. After a damaged frame the search continues inside it."""

    def __init__(self, sensor: str, interval_s: float) -> None:
        self._sensor = sensor
        self._interval_ms = interval_s * 1000
        self._pending = b""
        self._read_at_ms: int | None = None

    def feed(self, data: bytes, now_ms: int) -> Sequence[Reading | Damaged]:
        pending, at = self._pending + data, 0
        events: list[Reading | Damaged] = []
        while (start := pending.find(START, at)) >= 0 and len(pending) - start >= FRAME_BYTES:
            if start > at:
                events.append(Damaged.frame("no start of frame", pending[at:start]))
            found, at = self._read(pending[start : start + FRAME_BYTES], start, now_ms)
            events += found
        if start < 0 and len(pending) - at > FRAME_BYTES:
            events.append(Damaged.frame("no start of frame", pending[at:]))
        self._pending = pending[start:] if start >= 0 else pending[at:][1 - len(START) :]
        return events

    def _read(self, frame: bytes, start: int, now_ms: int) -> tuple[Sequence[Reading | Damaged], int]:
        """The events of a frame, and where to continue."""
        try:
            found = read_frame(frame)
        except ValueError as error:
            return [Damaged.frame(str(error), frame)], start + len(START)
        if self._read_at_ms is not None and 0 <= now_ms - self._read_at_ms < self._interval_ms:
            return [], start + FRAME_BYTES
        self._read_at_ms = now_ms
        readings = [Reading(self._sensor, name, value, unit, taken_at_ms=now_ms) for name, value, unit in found]
        return readings, start + FRAME_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Pms5003Settings(SerialSettings):
    interval_s: Annotated[float, Between(0, 86_400)] = 10.0  # shortest interval; the sensor sends once a second
    silence_s: Seconds = 30.0


def build(name: str, settings: Mapping[str, object], path: str = "") -> "Pms5003Driver":
    return Pms5003Driver(name, check_settings(Pms5003Settings, settings, path))


class Pms5003Driver(SerialDriver[Pms5003Decoder]):
    KIND = "pms5003"

    def __init__(self, name: str, settings: Pms5003Settings) -> None:
        super().__init__(name, settings, lambda: Pms5003Decoder(name, settings.interval_s))
