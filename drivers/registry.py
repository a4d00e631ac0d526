"""Which drivers there are: a plain table, each imported on use, so that no unused dependency is loaded."""

import importlib
from collections.abc import Mapping
from typing import Final, Protocol, cast

from drivers.contract import Driver
from drivers.errors import ConfigError

__all__ = ["DRIVERS", "build_driver"]

DRIVERS: Final = {
    "example": "drivers.example.driver",
    "firmware": "drivers.firmware.driver",
    "modbus": "drivers.modbus.driver",
    "mqtt": "drivers.mqtt.driver",
    "nmea": "drivers.nmea.driver",
    "pms5003": "drivers.pms5003.driver",
    "serial_line": "drivers.serial_line.driver",
    "simulated": "drivers.simulated.driver",
    "sysfs": "drivers.sysfs.driver",
    "system": "drivers.system.driver",
}


class DriverModule(Protocol):
    def build(self, name: str, settings: Mapping[str, object], path: str) -> Driver: ...


def build_driver(name: str, table: Mapping[str, object], path: str = "") -> Driver:
    """The driver of the table `[drivers.NAME]`, whose `driver` says which; checked, and nothing opened.

    Raises: ConfigError, with every problem of the table under its dotted path (default: `drivers.NAME`).
    """
    path = path or f"drivers.{name}"
    settings = dict(table)
    kind = settings.pop("driver", None)
    if not isinstance(kind, str) or kind not in DRIVERS:
        raise ConfigError(f"{path}.driver: {_no_such_driver(kind)}")
    module = cast("DriverModule", importlib.import_module(DRIVERS[kind]))
    return module.build(name, settings, path)


def _no_such_driver(kind: object) -> str:
    known = ", ".join(DRIVERS)
    if not isinstance(kind, str):
        return f"missing; it is one of {known}"
    import difflib

    close = difflib.get_close_matches(kind, DRIVERS, n=1)
    return f"{kind!r:.40} is not a driver; " + (f"did you mean {close[0]}?" if close else f"there are {known}")
