"""What is attached to this gateway, and how to read it: from the kernel's files, opening nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drivers.ports import SerialPortInfo, serial_ports
from drivers.sysfs.channels import CLASSES, channels_of

__all__ = ["Attached", "attached_devices", "port_settings"]

_RECEIVER_WORDS: Final = ("gps", "gnss", "u-blox", "ublox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    kind: str  # serial, microcontroller, w1, iio, hwmon, thermal, gpio, leds
    name: str  # /dev/ttyUSB0, 28-0316a279f1ff
    by_id: str = ""
    usb_id: str = ""  # vendor:product, in hex
    usb_serial: str = ""
    description: str = ""
    settings: str  # a table for the configuration


def attached_devices(root: Path = Path("/")) -> list[Attached]:
    """Serial ports first, then the kernel's classes; in the same order each time."""
    ports = [_port(info) for info in serial_ports(root)]
    return [*ports, *(device for kernel_class in CLASSES for device in _sensors(kernel_class, root))]


def _port(info: SerialPortInfo) -> Attached:
    identity = info.identity
    usb_id = f"{identity.vendor}:{identity.product}" if identity else ""
    port = Attached(
        kind="serial",
        name=info.device,
        by_id=info.by_id,
        usb_id=usb_id,
        usb_serial=identity.serial if identity else "",
        description=info.description,
        settings="",
    )
    return replace(port, settings=port_settings(port, Path(info.device).name, _likely_driver(port)))


def port_settings(port: Attached, table: str, driver: str) -> str:
    """A table that names the port by identity where there is one."""
    usb_name = f"usb:{port.usb_id}:{port.usb_serial}" if port.usb_serial else ""
    return f'[drivers.{table}]\n{driver}\nport = "{port.by_id or usb_name or port.name}"\n'


def _likely_driver(port: Attached) -> str:
    """What speaks there nobody knows before it is read: raw lines are never wrong."""
    is_receiver = any(word in f"{port.description} {port.by_id}".lower() for word in _RECEIVER_WORDS)
    return 'driver = "nmea"' if is_receiver else 'driver = "serial_line"\nformat = "raw"\nmime_type = "text/plain"'


def _sensors(kernel_class: str, root: Path) -> Iterator[Attached]:
    quantities: dict[str, list[str]] = {}
    for channel in channels_of(kernel_class, root):
        quantities.setdefault(channel.sensor, []).append(f"{channel.quantity} {channel.unit}".strip())
    for sensor, found in quantities.items():
        table = sensor.replace(":", "_").replace(" ", "_")
        settings = f'[drivers.{table}]\ndriver = "sysfs"\nclasses = ["{kernel_class}"]\nsensors = ["{sensor}"]\n'
        yield Attached(kind=kernel_class, name=sensor, description=", ".join(found), settings=settings)
