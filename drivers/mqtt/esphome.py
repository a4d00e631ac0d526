"""Topics and payloads of ESPHome. Pure.

| topic | payload |
|---|---|
| `NODE/sensor/NAME/state` | `21.3`, `nan` where there is no value; a text sensor's string has the same topic |
| `NODE/number/NAME/state` | `21.5` |
| `NODE/binary_sensor/NAME/state`, `NODE/switch/NAME/state` | `ON`, `OFF` |
| `NODE/light/NAME/state` | `{"state":"ON","brightness":255,…}` |
| `NODE/status` | `online`, `offline` |

NODE is the topic prefix of a device: its name, or a path of up to `MAX_PREFIX_LEVELS` levels (`esphome/office`).
"""

import math
import re
from collections.abc import Sequence
from typing import Final

from drivers.mapping import OFF, ON, shown
from drivers.mqtt.mappings import Sample, is_number, is_online, json_object

MAX_PREFIX_LEVELS: Final = 3
_KINDS: Final = ("sensor", "number", "binary_sensor", "switch", "light")
_INSTANCE: Final = re.compile(r"(_sensor)?(_[0-9]+)?$")  # temperature_sensor_1
# ESPHome does not send units; they are guessed from the end of a name.
_UNITS_BY_ENDING: Final = {
    "temperature": "Cel", "dew_point": "Cel", "humidity": "%", "pressure": "hPa", "illuminance": "lx", "co2": "[ppm]",
    "voltage": "V", "current": "A", "power": "W", "energy": "kW.h", "signal": "dBm", "rssi": "dBm", "uptime": "s",
    "battery": "%", "battery_level": "%", "distance": "m", "frequency": "Hz",
}  # fmt: skip
_NO_VALUE: Final = frozenset({"", "unknown", "unavailable"})


class EspHome:
    filters = tuple(
        "+/" * levels + ending
        for levels in range(1, MAX_PREFIX_LEVELS + 1)
        for ending in (*(f"{kind}/+/state" for kind in _KINDS), "status")
    )

    def read(self, topic: str, payload: bytes) -> Sequence[Sample] | None:
        match topic.split("/"):
            case [*prefix, "sensor" | "number", name, "state"] if prefix:
                return _number_or_text("/".join(prefix), name, payload.decode().strip())
            case [*prefix, "binary_sensor" | "switch", name, "state"] if prefix:
                return [Sample("/".join(prefix), name, _boolean(payload.decode()))]
            case [*prefix, "light", name, "state"] if prefix:
                return _light("/".join(prefix), name, payload)
            case [*prefix, "status"] if prefix:
                return _status("/".join(prefix), payload)
        return None


def _status(node: str, payload: bytes) -> Sequence[Sample] | None:
    """Other programs have topics of this form, too; other payloads are ignored."""
    try:
        return [Sample(node, "online", is_online(payload))]
    except ValueError:
        return None


def _number_or_text(node: str, name: str, text: str) -> Sequence[Sample]:
    try:
        number = float(text)
    except ValueError:
        return [] if text.lower() in _NO_VALUE else [Sample(node, name, text)]
    if not math.isfinite(number):
        return []
    stem = _INSTANCE.sub("", name)
    unit = next((unit for ending, unit in _UNITS_BY_ENDING.items() if stem.endswith(ending)), "")
    return [Sample(node, name, number, unit)]


def _light(node: str, name: str, payload: bytes) -> Sequence[Sample]:
    light = json_object(payload)
    state, brightness = light.get("state"), light.get("brightness")
    samples = [Sample(node, name, _boolean(state))] if isinstance(state, str) else []
    return [*samples, Sample(node, f"{name}_brightness", brightness)] if is_number(brightness) else samples


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ON | OFF:
        raise ValueError(f"{shown(word)} is neither on nor off")
    return word in ON
