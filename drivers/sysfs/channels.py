"""The channels of sensors that the kernel has drivers for, as it lays them out below /sys.

| class | where | value |
|---|---|---|
| `w1` | `bus/w1/devices/28-*/temperature`, or `w1_slave` in old kernels | m°C |
| `iio` | `bus/iio/devices/iio:device*/in_*_input`, or (`in_*_raw` + `_offset`) × `_scale` | unit of the channel type |
| `hwmon` | `class/hwmon/hwmon*/temp1_input`, `in0_input`, `fan1_input`, … | 1/1000, mostly |
| `thermal` | `class/thermal/thermal_zone*/temp` | m°C |
| `gpio` | `class/gpio/gpio*/value` | 0 or 1 |
| `leds` | `class/leds/*/brightness` | 0 to `max_brightness` |
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drivers.kernel_files import numeric_file, read_kernel_file
from drivers.reading import MAX_NAME_CHARS, Scalar

W1_POWER_ON_C: Final = 85.0  # value of a DS18B20 before its first measurement, or after its supply failed
MAX_CHANNELS: Final = 1000


@dataclass(frozen=True, slots=True)
class Channel:
    """One value that can be read. `sensor` stays the same over reboots as far as the kernel allows."""

    sensor: str
    quantity: str
    unit: str
    file: Path
    scale: float = 1.0
    offset: float = 0.0  # added before scaling
    is_state: bool = False


def channels_of(kernel_class: str, root: Path) -> list[Channel]:
    return list(CLASSES[kernel_class](root / "sys"))[:MAX_CHANNELS]


def read_channel(channel: Channel) -> Scalar | None:
    """The value; None if the sensor does not respond or has no measurement."""
    if channel.file.name == "w1_slave":
        return _read_w1_slave(channel.file)
    raw = numeric_file(channel.file)
    if raw is None:
        return None
    if channel.is_state:
        return bool(raw)
    value = round((raw + channel.offset) * channel.scale, 6)
    is_power_on = channel.sensor.startswith("28-") and value == W1_POWER_ON_C
    return value if math.isfinite(value) and not is_power_on else None


def _read_w1_slave(file: Path) -> float | None:
    """`… crc=4b YES` and `… t=21437`; NO is a wrong checksum."""
    text = read_kernel_file(file) or ""
    match = re.search(r"YES\s.*t=(-?[0-9]{1,6})", text, re.DOTALL)
    value = int(match[1]) / 1000 if match else None
    return None if value == W1_POWER_ON_C else value


def _w1(sys: Path) -> Iterator[Channel]:
    for device in sorted((sys / "bus/w1/devices").glob("[0-9a-f][0-9a-f]-*")):
        if (device / "temperature").exists():
            yield Channel(device.name, "temperature", "Cel", device / "temperature", 0.001)
        elif (device / "w1_slave").exists():
            yield Channel(device.name, "temperature", "Cel", device / "w1_slave")


# Per channel type of the kernel's IIO interface: quantity, our unit, and the factor to it.
_IIO: Final = {
    "temp": ("temperature", "Cel", 0.001),
    "humidityrelative": ("humidity", "%", 0.001),
    "pressure": ("pressure", "hPa", 10.0),
    "illuminance": ("illuminance", "lx", 1.0),
    "voltage": ("voltage", "V", 0.001),
    "current": ("current", "A", 0.001),
    "power": ("power", "W", 0.001),
    "resistance": ("resistance", "Ohm", 1.0),
    "concentration": ("concentration", "%", 1.0),
    "accel": ("acceleration", "m/s2", 1.0),
    "anglvel": ("angular_velocity", "rad/s", 1.0),
    "magn": ("magnetic_field", "G", 1.0),
    "proximity": ("proximity", "", 1.0),
}


def _iio(sys: Path) -> Iterator[Channel]:
    for sensor, device in _named_devices(sys / "bus/iio/devices", "iio:device*"):
        for file in sorted(device.glob("in_*")):
            if channel := _iio_channel(sensor, file):
                yield channel


def _iio_channel(sensor: str, file: Path) -> Channel | None:
    match = re.fullmatch(r"in_([a-z]+)([0-9]*)((?:_[a-z0-9]+)*)_(input|raw)", file.name)
    if match is None or match[1] not in _IIO:
        return None
    kind, index, modifier, form = match.groups()
    if form == "raw" and file.with_name(file.name.removesuffix("raw") + "input").exists():
        return None
    name, unit, factor = _IIO[kind]
    scale, offset = (1.0, 0.0) if form == "input" else _iio_calibration(file, f"in_{kind}")
    return Channel(sensor, f"{name}{index}{modifier}", unit, file, scale * factor, offset)


def _iio_calibration(raw: Path, shared: str) -> tuple[float, float]:
    """Scale and offset of the channel itself, else those that all channels of the type share."""
    stem = raw.name.removesuffix("_raw")
    scale = [numeric_file(raw.with_name(f"{name}_scale")) for name in (stem, shared)]
    offset = [numeric_file(raw.with_name(f"{name}_offset")) for name in (stem, shared)]
    return next((s for s in scale if s is not None), 1.0), next((o for o in offset if o is not None), 0.0)


_HWMON: Final = {
    "temp": ("temperature", "Cel", 1e-3),
    "in": ("voltage", "V", 1e-3),
    "curr": ("current", "A", 1e-3),
    "power": ("power", "W", 1e-6),
    "energy": ("energy", "J", 1e-6),
    "humidity": ("humidity", "%", 1e-3),
    "fan": ("fan_speed", "/min", 1.0),
}


def _hwmon(sys: Path) -> Iterator[Channel]:
    for sensor, device in _named_devices(sys / "class/hwmon", "hwmon*"):
        for file in sorted(device.glob("*_input")):
            match = re.fullmatch(r"([a-z]+)([0-9]+)_input", file.name)
            if match and match[1] in _HWMON:
                name, unit, factor = _HWMON[match[1]]
                label = read_kernel_file(device / f"{match[1]}{match[2]}_label")
                yield Channel(sensor, f"{name}_{_word(label or match[2])}", unit, file, factor)


def _thermal(sys: Path) -> Iterator[Channel]:
    for zone in sorted((sys / "class/thermal").glob("thermal_zone*")):
        kind = read_kernel_file(zone / "type") or "zone"
        yield Channel(
            f"{_word(kind)}-{zone.name.removeprefix('thermal_zone')}", "temperature", "Cel", zone / "temp", 0.001
        )


def _gpio(sys: Path) -> Iterator[Channel]:
    for pin in sorted((sys / "class/gpio").glob("gpio[0-9]*")):
        yield Channel(pin.name, "state", "", pin / "value", is_state=True)


def _leds(sys: Path) -> Iterator[Channel]:
    for led in sorted((sys / "class/leds").glob("*")):
        yield Channel(_word(led.name), "state", "", led / "brightness", is_state=True)


def _named_devices(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Devices by the names of their chips; of two alike, the second gets a number."""
    seen: dict[str, int] = {}
    for device in sorted(folder.glob(pattern)):
        name = _word(read_kernel_file(device / "name") or device.name)
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name}-{seen[name]}"), device


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[: MAX_NAME_CHARS // 2] or "unnamed"


CLASSES: Final[dict[str, Callable[[Path], Iterator[Channel]]]] = {
    "w1": _w1,
    "iio": _iio,
    "hwmon": _hwmon,
    "thermal": _thermal,
    "gpio": _gpio,
    "leds": _leds,
}
