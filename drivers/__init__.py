"""Sensor drivers: one folder per family, one contract (`drivers/contract.py`), one table (`drivers/registry.py`)."""

from drivers.contract import Driver
from drivers.errors import ConfigError, DeviceError
from drivers.health import DeviceChange, DeviceState
from drivers.reading import Reading, now_ms
from drivers.registry import DRIVERS, build_driver
from drivers.supervise import supervise
from runtime.settings import check_settings

__all__ = [
    "DRIVERS",
    "ConfigError",
    "DeviceChange",
    "DeviceError",
    "DeviceState",
    "Driver",
    "Reading",
    "build_driver",
    "check_settings",
    "now_ms",
    "supervise",
]
