"""GNSS receivers and marine instruments that speak NMEA 0183, on a serial line or behind TCP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from drivers.nmea.decoder import NmeaDecoder, TimeHint
from drivers.serial_driver import SerialDriver, SerialSettings
from drivers.settings import Between, Seconds, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NmeaSettings(SerialSettings):
    interval_s: Annotated[float, Between(0, 86_400)] = 1.0  # each quantity at most so often; 0 gives all
    clock: Literal["gnss", "gateway"] = "gnss"  # whose time is on the readings
    silence_s: Seconds = 30.0


def build(name: str, settings: Mapping[str, object], path: str = "") -> "NmeaDriver":
    return NmeaDriver(name, check_settings(NmeaSettings, settings, path))


class NmeaDriver(SerialDriver[NmeaDecoder]):
    KIND = "nmea"

    def __init__(self, name: str, settings: NmeaSettings) -> None:
        super().__init__(name, settings, lambda: NmeaDecoder(name, settings.interval_s, settings.clock))

    @property
    def time_hint(self) -> TimeHint | None:
        """The last comparison of the receiver's clock with the gateway's; None before the first fix."""
        return self._decoder.time_hint
