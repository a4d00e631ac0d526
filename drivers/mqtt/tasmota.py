"""Topics and payloads of Tasmota. Pure.

| topic | payload |
|---|---|
| `tele/DEVICE/SENSOR` | `{"Time":…,"AM2301":{"Temperature":21.3,…},"TempUnit":"C"}` |
| the same, or `tele/BRIDGE/DEVICE/SENSOR`, of a Zigbee bridge | `{"ZbReceived":{"0x3C0E":{"Name":"door",…}}}` |
| `tele/DEVICE/STATE`, `stat/DEVICE/RESULT` | `{"POWER":"ON","Wifi":{"Signal":-58,…},…}` |
| `tele/DEVICE/LWT` | `Online`, `Offline`; `DeepSleep` until it wakes |

Topics have one of two orders: `tele/DEVICE/…`, the default, or `DEVICE/tele/…`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from drivers.mapping import OFF, ON
from drivers.mqtt.mappings import NotRead, Sample, is_number, is_online, json_object

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_RELAY: Final = re.compile(r"POWER[0-9]*")
_CELSIUS_OR_FAHRENHEIT: Final = ("Temperature", "DewPoint", "HeatIndex")
_PRESSURES: Final = ("Pressure", "SeaPressure")
_PRESSURE_UNITS: Final = {"hPa": "hPa", "mmHg": "mm[Hg]", "inHg": "[in_i'Hg]"}
_SPEED_UNITS: Final = {
    "m/s": "m/s", "km/h": "km/h", "kn": "[kn_i]", "mph": "[mi_i]/h", "ft/s": "[ft_i]/s", "yd/s": "[yd_i]/s",
}  # fmt: skip
_UNITS: Final = {
    "Temperature": "Cel", "DewPoint": "Cel", "HeatIndex": "Cel", "Humidity": "%", "Moisture": "%", "Battery": "%",
    "Illuminance": "lx", "Ambient": "lx", "CCT": "K", "Distance": "cm", "Weight": "kg", "RSSI": "dBm",
    "CarbonDioxide": "[ppm]", "eCO2": "[ppm]", "TVOC": "[ppb]",
    "PM1": "ug/m3", "PM2.5": "ug/m3", "PM10": "ug/m3", "CF1": "ug/m3", "CF2.5": "ug/m3", "CF10": "ug/m3",
    "PB0.3": "/dL", "PB0.5": "/dL", "PB1": "/dL", "PB2.5": "/dL", "PB5": "/dL", "PB10": "/dL",
    "Power": "W", "ActivePower": "W", "ApparentPower": "V.A", "ReactivePower": "var", "Voltage": "V", "Current": "A",
    "CurrentNeutral": "A", "Frequency": "Hz", "PhaseAngle": "deg", "Total": "kW.h", "Today": "kW.h",
    "Yesterday": "kW.h", "TotalTariff": "kW.h", "ExportActive": "kW.h", "ImportActive": "kW.h", "ExportTariff": "kW.h",
    "ImportReactive": "kvar.h", "ExportReactive": "kvar.h", "Energy": "kW.h", "Period": "W.h",
}  # fmt: skip
_ENERGY_WITHOUT_UNIT: Final = ("AS3935", "LD2410")  # of a lightning, and of an echo
# Of a Zigbee bridge the same names mean something else: Power is a switch, Illuminance a raw logarithm.
_ZIGBEE_UNITS: Final = {
    "Temperature": "Cel", "LocalTemperature": "Cel", "Humidity": "%", "Pressure": "hPa", "BatteryPercentage": "%",
    "BatteryVoltage": "V", "LinkQuality": "", "Illuminance": "", "Occupancy": "", "Power": "",
}  # fmt: skip


class Tasmota:
    filters = (
        *("tele/+/SENSOR", "tele/+/+/SENSOR", "tele/+/STATE", "tele/+/LWT", "stat/+/RESULT"),
        *("+/tele/SENSOR", "+/tele/STATE", "+/tele/LWT", "+/stat/RESULT"),
    )

    def read(self, topic: str, payload: bytes) -> Sequence[Sample | NotRead] | None:
        match topic.split("/"):
            case ["tele", device, "LWT"] | [device, "tele", "LWT"]:
                return [] if payload == b"DeepSleep" else [Sample(device, "online", is_online(payload))]
            case ["tele", device, "SENSOR"] | [device, "tele", "SENSOR"]:
                return list(_sensors(device, json_object(payload)))
            case ["tele", bridge, device, "SENSOR"]:
                document = json_object(payload)
                return list(_sensors(bridge if "ZbReceived" in document else f"{bridge}/{device}", document))
            case ["tele", device, "STATE"] | ["stat", device, "RESULT"]:
                return list(_state(device, json_object(payload)))
            case [device, "tele", "STATE"] | [device, "stat", "RESULT"]:
                return list(_state(device, json_object(payload)))
        return None


def _sensors(device: str, document: Mapping[str, Any]) -> Iterator[Sample | NotRead]:
    units = {**_UNITS, **_units_in(document)}
    is_fahrenheit = document.get("TempUnit") == "F"
    for block, content in document.items():
        if block == "ZbReceived" and isinstance(content, dict):
            yield from _zigbee(device, content)
        elif isinstance(content, dict):
            yield from _block(device, block, content, units, is_fahrenheit)
        elif is_number(content) and block:  # most sensors have a block; a few do not
            yield Sample(device, _snake(block), content)
        elif block.startswith("Switch") and str(content).lower() in ON | OFF:
            yield Sample(device, _snake(block), str(content).lower() in ON)


def _units_in(document: Mapping[str, Any]) -> dict[str, str]:
    """The units that the document itself gives."""
    pressure = _PRESSURE_UNITS.get(str(document.get("PressureUnit", "hPa")), "")
    return {**dict.fromkeys(_PRESSURES, pressure), "Speed": _SPEED_UNITS.get(str(document.get("SpeedUnit")), "")}


def _block(
    device: str, block: str, content: Mapping[str, Any], units: Mapping[str, str], is_fahrenheit: bool
) -> Iterator[Sample | NotRead]:
    sensor = f"{device}/{block}" if block else device
    for name, inner, value in _leaves(content):
        if isinstance(value, str) and value and units.get(name):
            yield NotRead(sensor, _snake(f"{name}_{inner}" if inner else name))
        if not is_number(value) or not name:
            continue
        known = name.rstrip("0123456789") if block == "ANALOG" else name  # Temperature1, by the pin
        if is_fahrenheit and known in _CELSIUS_OR_FAHRENHEIT:
            value = round((value - 32) / 1.8, 2)
        unit = units.get(inner) or units.get(known, "")
        if known == "Energy" and block in _ENERGY_WITHOUT_UNIT:
            unit = ""
        yield Sample(sensor, _snake(f"{name}_{inner}" if inner else name), value, unit)


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """name, inner name or number ("" where there is none), value"""
    for name, value in content.items():
        if isinstance(value, list):
            yield from ((name, str(phase), number) for phase, number in enumerate(value, 1))
        elif isinstance(value, dict):
            yield from ((name, inner, number) for inner, number in value.items())
        else:
            yield name, "", value


def _zigbee(bridge: str, devices: Mapping[str, Any]) -> Iterator[Sample]:
    for address, content in devices.items():
        if not isinstance(content, dict):
            continue
        sensor = f"{bridge}/{content.get('Name') or address}"
        for name, value in content.items():
            if is_number(value) and name in _ZIGBEE_UNITS:
                switch_or_number = bool(value) if name in ("Power", "Occupancy") else value
                yield Sample(sensor, _snake(name), switch_or_number, _ZIGBEE_UNITS[name])


def _state(device: str, document: Mapping[str, Any]) -> Iterator[Sample]:
    for name, value in document.items():
        if _RELAY.fullmatch(name) and str(value).lower() in ON | OFF:
            yield Sample(device, name.lower(), str(value).lower() in ON)
    if is_number(document.get("UptimeSec")):
        yield Sample(device, "uptime", document["UptimeSec"], "s")
    if is_number(document.get("Vcc")):
        yield Sample(device, "vcc", document["Vcc"], "V")
    wifi = document.get("Wifi")
    if isinstance(wifi, dict) and is_number(wifi.get("Signal")):
        yield Sample(device, "wifi_signal", wifi["Signal"], "dBm")


def _snake(name: str) -> str:
    """DewPoint ──► dew_point, eCO2 ──► eco2, PM2.5 ──► pm2_5."""
    words = name if name == "eCO2" else _WORD.sub("_", name)
    return re.sub(r"[ .-]", "_", words).lower()
