"""The mappings for well-known firmware, by the names they have in settings."""

from collections.abc import Callable
from typing import Final

from drivers.mqtt.esphome import EspHome
from drivers.mqtt.mappings import Firmware
from drivers.mqtt.tasmota import Tasmota
from drivers.mqtt.zigbee2mqtt import Zigbee2Mqtt

__all__ = ["READY_MADE"]

READY_MADE: Final[dict[str, Callable[[], Firmware]]] = {
    "tasmota": Tasmota,
    "zigbee2mqtt": Zigbee2Mqtt,
    "esphome": EspHome,
}
