"""What is attached, with the settings to read it: the part of `headgate devices` that needs no agent."""

import argparse
import dataclasses
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from drivers.attached import Attached, attached_devices, port_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drivers.firmware.ask import Microcontroller

    Ask = Callable[[Iterable[str], int], dict[str, Microcontroller]]  # ports and baudrate ──► those that answered

DESCRIPTION = "List what is attached: serial ports with their identities, 1-wire, IIO and other sensors of the kernel."

WATCH_INTERVAL_S: Final = 0.5
DEFAULT_BAUDRATE: Final = 115_200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one line of JSON per device")
    parser.add_argument("--watch", action="store_true", help="go on, and tell what is plugged in or pulled")
    parser.add_argument(
        "--ask",
        action="store_true",
        help="open each serial port that nobody holds, and ask for a microcontroller; many boards reset by that. The"
        " agent is asked for those that it holds",
    )
    parser.add_argument("--baudrate", type=int, default=DEFAULT_BAUDRATE, help="at which to ask (default: 115200)")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where /dev and /sys are (default: /)")


def show(arguments: argparse.Namespace, ask: "Ask") -> None:
    """`ask` tells which microcontrollers are behind ports, where that is wanted."""
    devices = attached_devices(arguments.root)
    if arguments.ask:
        devices = _asked(devices, arguments, ask)
    for device in devices:
        _tell("", device, as_json=arguments.json)
    if not devices and not arguments.json:
        print("nothing is attached that the kernel knows of")
    if arguments.watch:
        _watch(arguments.root, devices, as_json=arguments.json)


def _asked(devices: list[Attached], arguments: argparse.Namespace, ask: "Ask") -> list[Attached]:
    """The same, with what the microcontrollers among them say of themselves."""
    baudrate = arguments.baudrate
    ports = {str(arguments.root / device.name.lstrip("/")): device for device in devices if device.kind == "serial"}
    found = {ports[port].name: answer for port, answer in ask(ports, baudrate).items()}
    return [as_microcontroller(each, found[each.name], baudrate) if each.name in found else each for each in devices]


def as_microcontroller(port: Attached, found: "Microcontroller", baudrate: int) -> Attached:
    table = re.sub("[^A-Za-z0-9_-]", "_", found.hello.device_id)
    settings = port_settings(port, table, f'driver = "firmware"\ndevice_id = {_quoted(found.hello.device_id)}')
    if baudrate != DEFAULT_BAUDRATE:
        settings += f"baudrate = {baudrate}\n"
    if found.wants_key:
        settings += f'key_file = "/etc/headgate/{table}.key"\n'
    return dataclasses.replace(port, kind="microcontroller", description=found.description, settings=settings)


def _quoted(text: str) -> str:
    """As TOML wants it; a device may call itself anything."""
    return orjson.dumps(text).decode()


def _watch(root: Path, before: list[Attached], *, as_json: bool) -> None:
    """Until interrupted."""
    while True:
        time.sleep(WATCH_INTERVAL_S)
        now = attached_devices(root)
        for event, device in changes(before, now):
            _tell(event, device, as_json=as_json)
        before = now


def changes(before: list[Attached], now: list[Attached]) -> list[tuple[str, Attached]]:
    """What was pulled, then what was plugged in."""
    pulled = [("pulled", device) for device in before if device not in now]
    return [*pulled, *(("plugged", device) for device in now if device not in before)]


def _tell(event: str, device: Attached, *, as_json: bool) -> None:
    if as_json:
        fields = dataclasses.asdict(device)
        print(orjson.dumps({"event": event, **fields} if event else fields).decode(), flush=True)
        return
    facts = [device.by_id, device.usb_id and f"USB {device.usb_id}", device.usb_serial, device.description]
    heading = "  ".join([f"{event} {device.name}".strip(), device.kind, *(fact for fact in facts if fact)])
    indented = "".join(f"    {line}\n" for line in device.settings.splitlines())
    print(heading if event == "pulled" else f"{heading}\n\n{indented}", flush=True)
