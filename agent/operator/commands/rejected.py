"""`headgate rejected`: lists input that drivers could not parse."""

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from agent.errors import ExitCode
from agent.events.rejected import FOLDER_NAME, read_samples
from agent.operator.arguments import add_config_argument, load_named_config
from protocol.shown_text import printable

DESCRIPTION = (
    "List input that drivers could not parse: time, device, sensor, reason and the first bytes. Only samples"
    " are stored (the first of each kind, then ever fewer); 'headgate status' has the counts."
)
SHOWN_BYTES: Final = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("device", nargs="?", metavar="DEVICE", help="only input from this device")
    parser.add_argument("--show", type=int, metavar="N", help="write the raw bytes of entry N to stdout")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, raw bytes in base64")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    numbered = [
        (number, sample)
        for number, sample in enumerate(read_samples(config.device.data_directory / FOLDER_NAME), 1)
        if arguments.device in (None, sample["device"])
    ]
    if not numbered and arguments.device not in (None, *config.drivers):
        known = ", ".join(config.drivers) or "none"
        print(f"headgate: no device is named {arguments.device!r}; configured devices: {known}", file=sys.stderr)
        return ExitCode.NO
    if arguments.show is not None:
        return _show(dict(numbered).get(arguments.show), arguments.show)
    for line in _as_json(numbered) if arguments.json else _as_text(numbered):
        print(line)
    if not numbered and not arguments.json:
        of = f" of {arguments.device}" if arguments.device else ""
        print(f"no rejected input{of}", file=sys.stderr)
    return ExitCode.OK


def _show(sample: dict[str, Any] | None, number: int) -> int:
    if sample is None:
        print(f"headgate: there is no entry {number}; 'headgate rejected' lists them", file=sys.stderr)
        return ExitCode.NO
    sys.stdout.flush()
    sys.stdout.buffer.write(sample["raw"])
    return ExitCode.OK


def _as_json(numbered: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    for number, sample in numbered:
        yield json.dumps({"number": number, **sample, "raw": base64.b64encode(sample["raw"]).decode()})


def _as_text(numbered: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    for number, sample in numbered:
        at = datetime.fromtimestamp(sample["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        raw = sample["raw"]
        more = "…" if sample["size_bytes"] > SHOWN_BYTES else ""
        what = printable(f"{sample['device']}  {sample['sensor']}  {sample['reason']}")
        yield f"{number:>5}  {at}  {what}  {raw[:SHOWN_BYTES]!r}{more}"
