"""The PMS5003 particle sensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from drivers.pms5003.decoder import Pms5003Decoder
from drivers.serial_driver import SerialDriver, SerialSettings
from drivers.settings import Between, Seconds, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Pms5003Settings(SerialSettings):
    interval_s: Annotated[float, Between(0, 86_400)] = (
        10.0  # the sensor sends about once a second; the rest is left out
    )
    silence_s: Seconds = 30.0


def build(name: str, settings: Mapping[str, object], path: str = "") -> "Pms5003Driver":
    return Pms5003Driver(name, check_settings(Pms5003Settings, settings, path))


class Pms5003Driver(SerialDriver[Pms5003Decoder]):
    KIND = "pms5003"

    def __init__(self, name: str, settings: Pms5003Settings) -> None:
        super().__init__(name, settings, lambda: Pms5003Decoder(name, settings.interval_s))
