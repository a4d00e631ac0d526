"""What Tasmota, Zigbee2MQTT and ESPHome publish, and what it means. Pure.

| firmware | topic | payload |
|---|---|---|
| Tasmota | `tele/DEVICE/SENSOR` | `{"Time":…,"AM2301":{"Temperature":21.3,…},"TempUnit":"C"}` |
| | `tele/DEVICE/STATE`, `stat/DEVICE/RESULT` | `{"POWER":"ON","Wifi":{"Signal":-58,…},…}` |
| | `tele/DEVICE/LWT` | `Online`, `Offline` |
| Zigbee2MQTT | `zigbee2mqtt/NAME` (a name may hold slashes) | `{"temperature":21.3,"linkquality":120,…}` |
| | `zigbee2mqtt/NAME/availability` | `{"state":"online"}` or `online` |
| ESPHome | `NODE/sensor/NAME/state` | `21.3`, or `nan` where there is no value |
| | `NODE/binary_sensor/NAME/state`, `NODE/switch/NAME/state` | `ON`, `OFF` |
| | `NODE/status` | `online`, `offline` |
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson

from drivers.mapping import MAX_FIELDS, OFF, ON, fields_of_json
from drivers.mqtt.mappings import Mapping, Sample

__all__ = ["READY_MADE", "EspHome", "Tasmota", "Zigbee2Mqtt"]

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _snake(name: str) -> str:
    """DewPoint ──► dew_point."""
    return _WORD.sub("_", name).replace(" ", "_").replace("-", "_").lower()


def _online(payload: bytes) -> bool:
    word = payload.decode().strip().lower()
    if word not in ("online", "offline"):
        raise ValueError(f"{word!r:.40} is neither online nor offline")
    return word == "online"


class Tasmota:
    filters = ("tele/+/SENSOR", "tele/+/STATE", "tele/+/LWT", "stat/+/RESULT")

    _UNITS: Final = {
        "Temperature": "Cel", "DewPoint": "Cel", "Humidity": "%", "Pressure": "hPa", "SeaPressure": "hPa",
        "Illuminance": "lx", "Distance": "cm", "CarbonDioxide": "[ppm]", "eCO2": "[ppm]", "TVOC": "[ppb]",
        "PM1": "ug/m3", "PM2.5": "ug/m3", "PM10": "ug/m3", "Power": "W", "ApparentPower": "V.A",
        "ReactivePower": "var", "Voltage": "V", "Current": "A", "Frequency": "Hz", "Total": "kW.h",
        "Today": "kW.h", "Yesterday": "kW.h", "Factor": "", "Period": "W.h",
    }  # fmt: skip
    _FAHRENHEIT: Final = ("Temperature", "DewPoint")

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        levels = topic.split("/")
        if len(levels) != 3:
            return None
        match levels:
            case ["tele", device, "LWT"]:
                return [Sample(device, "online", _online(payload))]
            case ["tele", device, "SENSOR"]:
                return list(self._sensors(device, _object(payload)))
            case ["tele", device, "STATE"] | ["stat", device, "RESULT"]:
                return list(self._state(device, _object(payload)))
        return None

    def _sensors(self, device: str, document: dict[str, Any]) -> Iterator[Sample]:
        units = {**self._UNITS, "Pressure": document.get("PressureUnit", "hPa")}
        is_fahrenheit = document.get("TempUnit") == "F"
        for block, content in document.items():
            if isinstance(content, dict):
                yield from self._block(f"{device}/{block}", content, units, is_fahrenheit)
            elif _is_number(content):  # {"ANALOG": …} has a block; a few drivers do without
                yield Sample(device, _snake(block), content)
            elif block.startswith("Switch") and str(content).lower() in ON | OFF:
                yield Sample(device, _snake(block), str(content).lower() in ON)

    def _block(
        self, sensor: str, content: dict[str, Any], units: dict[str, str], is_fahrenheit: bool
    ) -> Iterator[Sample]:
        for name, value in content.items():
            unit = units.get(name, "")
            phases = list(enumerate(value, 1)) if isinstance(value, list) else [(0, value)]
            for phase, number in phases:
                if not _is_number(number):
                    continue
                if is_fahrenheit and name in self._FAHRENHEIT:
                    number = round((number - 32) / 1.8, 2)
                yield Sample(sensor, _snake(name) + (f"_{phase}" if phase else ""), number, unit)

    def _state(self, device: str, document: dict[str, Any]) -> Iterator[Sample]:
        for name, value in document.items():
            if re.fullmatch(r"POWER[0-9]*", name) and str(value).lower() in ON | OFF:
                yield Sample(device, name.lower(), str(value).lower() in ON)
        if _is_number(document.get("UptimeSec")):
            yield Sample(device, "uptime", document["UptimeSec"], "s")
        wifi = document.get("Wifi")
        if isinstance(wifi, dict) and _is_number(wifi.get("Signal")):
            yield Sample(device, "wifi_signal", wifi["Signal"], "dBm")


class Zigbee2Mqtt:
    filters = ("zigbee2mqtt/#",)

    _UNITS: Final = {
        "temperature": "Cel", "device_temperature": "Cel", "local_temperature": "Cel", "humidity": "%",
        "soil_moisture": "%", "pressure": "hPa", "illuminance": "lx", "illuminance_lux": "lx", "battery": "%",
        "power": "W", "voltage": "V", "current": "A", "energy": "kW.h", "co2": "[ppm]", "voc": "[ppb]",
        "pm25": "ug/m3", "pm10": "ug/m3", "formaldehyd": "ug/m3", "ac_frequency": "Hz", "linkquality": "",
    }  # fmt: skip
    _COMMANDS: Final = ("set", "get")
    _TRUTHS: Final = ("state", "contact", "occupancy", "water_leak", "smoke", "tamper", "battery_low", "vibration")

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        base, _, name = topic.partition("/")
        if base != "zigbee2mqtt" or not name or name.startswith("bridge/") or name.split("/")[-1] in self._COMMANDS:
            return None
        if name.endswith("/availability"):
            return [Sample(name.removesuffix("/availability"), "online", self._availability(payload))]
        fields = fields_of_json(payload)
        return [sample for field, value in fields.items() if (sample := self._sample(name, field, value, fields))]

    def _availability(self, payload: bytes) -> bool:
        is_json = payload.lstrip().startswith(b"{")
        return _online(str(_object(payload).get("state")).encode() if is_json else payload)

    def _sample(self, sensor: str, field: str, value: Any, fields: dict[str, Any]) -> Sample | None:
        quantity = field.replace(".", "_")
        if isinstance(value, bool):
            return Sample(sensor, quantity, value)
        if field.split("_")[0] in self._TRUTHS and str(value).lower() in ON | OFF:
            return Sample(sensor, quantity, str(value).lower() in ON)
        if not _is_number(value) or field.startswith(("update.", "last_seen")):
            return None
        is_battery_voltage = field == "voltage" and "battery" in fields  # in mV, while plugs speak of V
        return Sample(sensor, quantity, value, "mV" if is_battery_voltage else self._UNITS.get(field, ""))


class EspHome:
    filters = (
        "+/sensor/+/state",
        "+/binary_sensor/+/state",
        "+/switch/+/state",
        "+/text_sensor/+/state",
        "+/status",
    )

    # ESPHome does not send units; the end of a name tells the usual ones.
    _UNITS: Final = {
        "temperature": "Cel", "humidity": "%", "pressure": "hPa", "illuminance": "lx", "co2": "[ppm]", "voltage": "V",
        "current": "A", "power": "W", "energy": "kW.h", "wifi_signal": "dBm", "signal": "dBm", "uptime": "s",
        "battery": "%", "dew_point": "Cel", "distance": "m",
    }  # fmt: skip

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        match topic.split("/"):
            case [node, "status"]:
                return [Sample(node, "online", _online(payload))]
            case [node, "sensor", name, "state"]:
                return self._number(node, name, payload.decode().strip())
            case [node, "binary_sensor" | "switch", name, "state"]:
                return [Sample(node, name, self._truth(payload))]
            case [node, "text_sensor", name, "state"]:
                return [Sample(node, name, payload.decode())]
        return None

    def _number(self, node: str, name: str, text: str) -> Sequence[Sample]:
        number = float(text)
        if not math.isfinite(number):  # "nan" is how it says: no value yet
            return []
        unit = next((unit for ending, unit in self._UNITS.items() if name.endswith(ending)), "")
        return [Sample(node, name, number, unit)]

    def _truth(self, payload: bytes) -> bool:
        word = payload.decode().strip().lower()
        if word not in ON | OFF:
            raise ValueError(f"{word!r:.40} is neither on nor off")
        return word in ON


READY_MADE: Final[dict[str, Callable[[], Mapping]]] = {
    "tasmota": Tasmota,
    "zigbee2mqtt": Zigbee2Mqtt,
    "esphome": EspHome,
}


def _object(payload: bytes) -> dict[str, Any]:
    document = orjson.loads(payload)
    if not isinstance(document, dict) or len(document) > MAX_FIELDS:
        raise ValueError(f"not a JSON object of at most {MAX_FIELDS} members")
    return document


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
