"""`headgate devices`: what is attached, with the settings to read it."""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Final

import orjson

from drivers.attached import Attached, attached_devices

DESCRIPTION = "List what is attached: serial ports with their identities, 1-wire, IIO and other sensors of the kernel."

WATCH_INTERVAL_S: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one line of JSON per device")
    parser.add_argument("--watch", action="store_true", help="go on, and tell what is plugged in or pulled")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where /dev and /sys are (default: /)")


def run(arguments: argparse.Namespace) -> int:
    devices = attached_devices(arguments.root)
    for device in devices:
        _tell("", device, as_json=arguments.json)
    if not devices and not arguments.json:
        print("nothing is attached that the kernel knows of")
    if arguments.watch:
        _watch(arguments.root, devices, as_json=arguments.json)
    return 0


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
