"""Lists attached devices with the settings to read them (`headgate devices`), from the kernel's files."""

import argparse
import dataclasses
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from drivers.ports import SerialPortInfo, serial_ports
from drivers.sysfs.channels import CLASSES, channels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drivers.firmware.port import Microcontroller

    Probe = Callable[
        [Iterable[str], int], dict[str, Microcontroller]
    ]  # ports and baud rate ──► the microcontrollers that responded

DESCRIPTION = "List attached devices: serial ports with their identities, 1-wire, IIO and other sensors of the kernel."

WATCH_INTERVAL_S: Final = 0.5
DEFAULT_BAUDRATE: Final = 115_200
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
    """The most probable driver; raw lines for a device of unknown kind."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "--watch", action="store_true", help="keep running and print devices as they are plugged in or removed"
    )
    parser.add_argument(
        "--identify",
        action="store_true",
        help="also query serial ports for microcontrollers: free ports are opened, which resets many boards;"
        " ports in use are queried through the agent",
    )
    parser.add_argument(
        "--baudrate", type=int, default=DEFAULT_BAUDRATE, help="baud rate for --identify (default: 115200)"
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="directory that contains dev and sys (default: /)")


def show(arguments: argparse.Namespace, probe: "Probe") -> None:
    """Print the devices; `probe` finds the microcontrollers among the given ports."""
    devices = attached_devices(arguments.root)
    if arguments.identify:
        devices = _add_microcontrollers(devices, arguments, probe)
    for device in devices:
        _print("", device, as_json=arguments.json)
    if not devices and not arguments.json:
        print("no attached devices found")
    if arguments.watch:
        _watch(arguments.root, devices, as_json=arguments.json)


def _add_microcontrollers(devices: list[Attached], arguments: argparse.Namespace, probe: "Probe") -> list[Attached]:
    """The devices, with the descriptions of the microcontrollers among them."""
    baudrate = arguments.baudrate
    ports = {str(arguments.root / device.name.lstrip("/")): device for device in devices if device.kind == "serial"}
    found = {ports[port].name: response for port, response in probe(ports, baudrate).items()}
    return [as_microcontroller(each, found[each.name], baudrate) if each.name in found else each for each in devices]


def as_microcontroller(port: Attached, found: "Microcontroller", baudrate: int) -> Attached:
    table = re.sub("[^A-Za-z0-9_-]", "_", found.hello.device_id)
    settings = port_settings(port, table, f'driver = "firmware"\ndevice_id = {_quoted(found.hello.device_id)}')
    if baudrate != DEFAULT_BAUDRATE:
        settings += f"baudrate = {baudrate}\n"
    if found.requires_key:
        settings += f'key_file = "/etc/headgate/{table}.key"\n'
    return dataclasses.replace(port, kind="microcontroller", description=found.description, settings=settings)


def _quoted(text: str) -> str:
    """A TOML string; a device id may contain any character."""
    return orjson.dumps(text).decode()


def _watch(root: Path, before: list[Attached], *, as_json: bool) -> None:
    """Print changes until interrupted."""
    while True:
        time.sleep(WATCH_INTERVAL_S)
        now = attached_devices(root)
        for event, device in changes(before, now):
            _print(event, device, as_json=as_json)
        before = now


def changes(before: list[Attached], now: list[Attached]) -> list[tuple[str, Attached]]:
    """The devices that were removed, then those that were plugged in."""
    pulled = [("pulled", device) for device in before if device not in now]
    return [*pulled, *(("plugged", device) for device in now if device not in before)]


def _print(event: str, device: Attached, *, as_json: bool) -> None:
    if as_json:
        fields = dataclasses.asdict(device)
        print(orjson.dumps({"event": event, **fields} if event else fields).decode(), flush=True)
        return
    facts = [device.by_id, device.usb_id and f"USB {device.usb_id}", device.usb_serial, device.description]
    heading = "  ".join([f"{event} {device.name}".strip(), device.kind, *(fact for fact in facts if fact)])
    indented = "".join(f"    {line}\n" for line in device.settings.splitlines())
    print(heading if event == "pulled" else f"{heading}\n\n{indented}", flush=True)
