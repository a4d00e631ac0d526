"""Topics and payloads of Zigbee2MQTT. Pure.

| topic | payload |
|---|---|
| `zigbee2mqtt/NAME` (a name may contain slashes) | `{"temperature":21.3,"linkquality":120,"state":"ON",…}` |
| `zigbee2mqtt/NAME/availability` | `{"state":"online"}` or `online` |

Of a document, every number, every boolean and the `action` of a button are read. Fields about the device itself
(`update`, `device`, `last_seen`, `elapsed`) are left out. No unit is sent: it follows from the name or, where devices
differ (`voltage`, `pressure`), from the size of the number. Single attributes (`output: attribute`) are not read.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from drivers.mapping import fields_of_json
from drivers.mqtt.mappings import NotRead, Sample, is_number, is_online, json_object

MAX_CACHED_FIELDS: Final = 1024
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9.]{0,20},[0-9]{1,20}")  # as a template of a user may write it
_COMMANDS: Final = frozenset({"set", "get"})
_ABOUT_THE_DEVICE: Final = frozenset({"update", "update_available", "device", "last_seen", "elapsed"})
_BOOLEANS: Final = {"ON": True, "OFF": False, "OPEN": True, "CLOSE": False, "LOCK": True, "UNLOCK": False}
# Of several of a kind in one device: power_l1, temperature_2, voltage_phase_b, state_left.
_CHANNEL: Final = re.compile(r"_(l?[0-9]+|(phase_)?[a-d]|left|right|center|top|bottom)$")
_BY_SIZE_OF_VOLTAGE: Final = "V or mV"
_BY_SIZE_OF_PRESSURE: Final = "kPa or hPa"
_UNITS_BY_ENDING: Final = {
    "temperature": "Cel", "setpoint": "Cel", "setpoint_limit": "Cel", "temperature_calibration": "Cel",
    "temperature_limit": "Cel", "humidity": "%", "soil_moisture": "%", "battery": "%", "position": "%", "tilt": "%",
    "pi_heating_demand": "%", "illuminance": "lx", "illuminance_lux": "lx", "power": "W", "power_apparent": "V.A",
    "power_reactive": "var", "current": "A", "energy": "kW.h", "ac_frequency": "Hz", "co2": "[ppm]", "co": "[ppm]",
    "pm25": "ug/m3", "pm10": "ug/m3", "pm1": "ug/m3",
    "voltage": _BY_SIZE_OF_VOLTAGE, "pressure": _BY_SIZE_OF_PRESSURE,
}  # fmt: skip
_MAINS_BELOW_V: Final = 1000  # plugs report volts, batteries millivolts
_AIR_BELOW_KPA: Final = 200  # some sensors report 99.7 kPa, others 997 hPa


class Zigbee2Mqtt:
    filters = ("zigbee2mqtt/#",)

    def read(self, topic: str, payload: bytes) -> Sequence[Sample | NotRead] | None:
        base, *levels = topic.split("/")
        name = "/".join(levels)
        if base != "zigbee2mqtt" or not name or levels[0] == "bridge" or not _COMMANDS.isdisjoint(levels[-2:]):
            return None
        if levels[-1] == "availability":
            return [Sample(name.removesuffix("/availability"), "online", _availability(payload))]
        if not payload.startswith(b"{"):  # a single attribute
            return None
        fields = fields_of_json(payload)
        return [sample for field, value in fields.items() if (sample := _sample(name, field, value, fields))]


def _availability(payload: bytes) -> bool:
    is_json = payload.lstrip().startswith(b"{")
    return is_online(str(json_object(payload).get("state")).encode() if is_json else payload)


def _sample(sensor: str, field: str, value: Any, fields: Mapping[str, Any]) -> Sample | NotRead | None:
    if field.split(".")[0] in _ABOUT_THE_DEVICE:
        return None
    quantity = field.replace(".", "_")
    if isinstance(value, str):
        if field == "action" and value:
            return Sample(sensor, quantity, value)
        if value in _BOOLEANS:
            return Sample(sensor, quantity, _BOOLEANS[value])
        return NotRead(sensor, quantity) if _DECIMAL_COMMA.fullmatch(value) and _unit_by_name(field) else None
    if isinstance(value, bool):
        return Sample(sensor, quantity, value)
    return Sample(sensor, quantity, value, _unit(field, value, fields)) if is_number(value) else None


def _unit(field: str, value: float, fields: Mapping[str, Any]) -> str:
    unit = _unit_by_name(field)
    if unit == _BY_SIZE_OF_VOLTAGE:
        return "V" if value < _MAINS_BELOW_V else "mV"
    if unit == _BY_SIZE_OF_PRESSURE:
        return "kPa" if value < _AIR_BELOW_KPA else "hPa"
    if field == "illuminance" and "illuminance_lux" in fields:
        return ""  # older versions: the raw logarithm, beside what it means
    return unit


@lru_cache(MAX_CACHED_FIELDS)
def _unit_by_name(field: str) -> str:
    stem = _CHANNEL.sub("", field)
    return next((unit for ending, unit in _UNITS_BY_ENDING.items() if f"_{stem}".endswith(f"_{ending}")), "")
