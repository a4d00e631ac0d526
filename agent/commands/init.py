"""`headgate init`: a commented configuration and keys for a new device. It never replaces either."""

import argparse
import os
import secrets
import socket
import sys
from pathlib import Path

from agent.atomic_files import create_file
from agent.config import SYSTEM_CONFIG, find_config, load_config
from agent.errors import ConfigError
from agent.exit_codes import ExitCode
from agent.keys import DeviceKeys, binding_as_json, create_key_file, new_passphrase_from, read_binding

DESCRIPTION = "Write a commented configuration and make keys. Asks nothing that it can find out or that was given."
CONFIG_MODE = 0o640
SERIAL_PORTS = Path("/dev/serial/by-id")

TEMPLATE = """\
## Headgate: the configuration of one device. `headgate check` tells of every mistake at once.
## `##` explains; a single `#` shows a setting at its default. Relative paths count from this file's folder.

[device]
name = "{name}"
data_directory = "{data}"
# events_stream = "{{address}}/{{device}}/events"   ## start, stop, losses, clock: signed like all else

[journal]
# max_megabytes = 512              ## strict; when it is full, the least important goes first, and is told of
# commit_interval_s = 1.0          ## what a power cut may cost; longer is easier on the card
# when_full = "shed"               ## or "stop_reading"

## One table per device. `driver` says which kind; each kind has a sample in drivers/<kind>/sample.toml.
{drivers}
## Which readings go where: the first rule that matches. Without any, each driver has a stream of its own.
# [[streams]]
# stream = "{{address}}/{{device}}/{{driver}}"
# driver = "*"                     ## patterns, as for file names
# sensor = "*"
# quantity = "*"
# partition = 0
# content = "binary"               ## or "json", readable by any Streamr application
# priority = 4                     ## 0 is sent first and shed last

## Far ends: websocket, http, mqtt or file.
{publisher}
## Archives for the collector.
# [archive]
# every_s = 900.0
# [ship]
# url = "https://collector.example:8440"
# collector_key = "collector.key"  ## 64 hex digits: only receipts that it signed let anything be deleted

## The status page: for this machine alone, unless there is a token.
# [page]
# listen = "127.0.0.1:7080"        ## or "off"; any other address wants a token_file
# token_file = "page.token"        ## mode 0600; make one: (umask 077; openssl rand -hex 24 > page.token)

[log]
# level = "info"
# form = "text"                    ## or "json"
"""
SIMULATED = """\
[drivers.simulated]
driver = "simulated"
rate_hz = 1.0
signals = [{ quantity = "temperature", kind = "diurnal", unit = "Cel" }]
"""
SYSTEM = """\
[drivers.gateway]
driver = "system"
"""
SERIAL = """\
## {port}
# [drivers.{name}]
# driver = "serial_line"
# port = "{port}"
"""
NODE = """\
[publishers.node]
kind = "{kind}"
url = "{url}"
"""
FILE = """\
[publishers.file]
kind = "file"
path = "{path}"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"where to write it (default: $HEADGATE_CONFIG, or {SYSTEM_CONFIG})"
    )
    parser.add_argument("--name", help="the device's name (default: asked for, or the host's name)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where it keeps its data (default: /var/lib/headgate)")
    parser.add_argument("--node", metavar="URL", help="the node to publish to; without it, messages go to a file")
    parser.add_argument("--simulated", action="store_true", help="begin with a simulated sensor")
    parser.add_argument("--non-interactive", action="store_true", help="ask nothing")
    parser.add_argument(
        "--with-passphrase", action="store_true", help="lock the key file; asks, unless a file is named"
    )
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="take the new passphrase from this file")


def run(arguments: argparse.Namespace) -> int:
    path: Path = arguments.config or find_config(os.environ)
    data: Path = (arguments.data or Path("/var/lib/headgate")).absolute()
    if path.exists():
        raise ConfigError(f"{path}: is there already, and is left as it is")
    name = arguments.name or _ask_name(is_asked=not arguments.non_interactive)
    path.parent.mkdir(parents=True, exist_ok=True)
    create_file(path, compose(name, data, arguments).encode(), mode=CONFIG_MODE)
    try:
        load_config(path)
    except ConfigError:
        path.unlink()  # nothing half good is left behind
        raise
    device = _make_keys(data / "keys" / "device.keys", arguments)
    print(f"{path}: written; edit it, then: headgate check --config {path}", file=sys.stderr)
    print(f"device       {device}")
    return ExitCode.OK


def compose(name: str, data: Path, arguments: argparse.Namespace) -> str:
    drivers = SIMULATED if arguments.simulated else SYSTEM
    if arguments.node is None:
        publisher = FILE.format(path=data / "messages.jsonl")
    else:
        kind = "http" if arguments.node.startswith("http") else "websocket"
        publisher = NODE.format(kind=kind, url=arguments.node)
    found = "".join(SERIAL.format(port=port, name=f"serial{n}") for n, port in enumerate(serial_ports(), 1))
    return TEMPLATE.format(name=name, data=data, drivers=drivers + found, publisher=publisher)


def serial_ports(folder: Path = SERIAL_PORTS) -> list[Path]:
    """By identity, so that they are found again after re-plugging."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _ask_name(*, is_asked: bool) -> str:
    own = socket.gethostname().split(".")[0] or "gateway"
    if not is_asked or not sys.stdin.isatty():
        return own
    return input(f"Name of this device [{own}]: ").strip() or own


def _make_keys(path: Path, arguments: argparse.Namespace) -> str:
    """The device's address, of new keys or of those that are there."""
    if not path.exists():
        wanted = arguments.with_passphrase or arguments.passphrase_file
        passphrase = new_passphrase_from(arguments.passphrase_file, os.environ) if wanted else None
        create_key_file(path, DeviceKeys.generate(secrets.token_bytes), passphrase)
        print(f"{path}: new keys; keep a copy in a safe place", file=sys.stderr)
    return binding_as_json(read_binding(path))["device"]
