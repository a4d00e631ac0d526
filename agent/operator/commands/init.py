"""`headgate init`: creates the configuration and the keys of a new device; never overwrites."""

import argparse
import os
import secrets
import socket
import sys
from pathlib import Path

from agent.config.configuration import SYSTEM_CONFIG, Config, find_config, load_config
from agent.config.files import key_file_of
from agent.errors import ConfigError, ExitCode
from agent.keys import DeviceKeys, binding_as_json, create_key_file, new_passphrase_from, read_binding
from agent.operator.arguments import add_new_passphrase_argument, add_passphrase_argument
from runtime.durable_files import create_file, make_directory

DESCRIPTION = "Create a commented configuration and the device's keys. Prompts for what is neither given nor detected."
CONFIG_MODE = 0o640
SERIAL_PORTS = Path("/dev/serial/by-id")
SIGNS_OF_USE = ("journal", "archives", "clock.ceiling")

TEMPLATE = """\
## Headgate: the configuration of one device. `headgate check` lists every problem.
## `##` is an explanation; a single `#` shows a setting with its default. Relative paths start at this file's folder.

[device]
name = "{name}"
data_directory = "{data}"
# events_stream = "{{address}}/{{device}}/events"   ## start, stop, losses, clock: signed messages, too

[journal]
# max_megabytes = 512              ## limit of the buffer; when full, the lowest priority is dropped first, and reported
# commit_interval_s = 1.0          ## readings of this time may be lost in a power cut; a longer time spares the card
# when_full = "shed"               ## or "stop_reading"

## One table per device. `headgate drivers` lists the drivers and their settings.
{drivers}
## Which readings go to which stream: the first rule that matches. Without any rule, each driver has its own stream.
# [[streams]]
# stream = "{{address}}/{{device}}/{{driver}}"
# driver = "*"                     ## wildcard patterns
# sensor = "*"
# quantity = "*"
# partition = 0
# content = "binary"               ## or "json", readable by any Streamr application
# priority = 4                     ## 0 is sent first and shed last

## Destinations: websocket, http, mqtt or file.
{publisher}
## Archives for the collector.
# [archive]
# every_s = 900.0
# [ship]
# url = "https://collector.example:8440"
# collector_key = "collector.key"  ## 64 hex digits; archives are deleted only after a receipt signed by it

## The status page: reachable from this machine only, unless there is a token.
# [page]
# listen = "127.0.0.1:7080"        ## or "off"; any other address requires a token_file
# token_file = "page.token"        ## openssl rand -hex 24 | sudo install -m 640 -g headgate /dev/stdin page.token

[log]
# level = "info"
# format = "text"                  ## or "json"
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
# max_megabytes = 128              ## of PATH and older parts (PATH.1, PATH.2, …); above it the oldest is removed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the configuration file to create (default: $HEADGATE_CONFIG, or {SYSTEM_CONFIG})",
    )
    parser.add_argument("--name", help="name of the device (default: prompt, or the host name)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data directory (default: /var/lib/headgate)")
    parser.add_argument("--node", metavar="URL", help="URL of the node to publish to (default: publish to a file)")
    parser.add_argument(
        "--missing",
        action="store_true",
        help="make only what is missing, configuration or keys, and succeed if nothing is; for the first boot of an"
        " image. Refuses to make keys where a device has already run",
    )
    parser.add_argument("--simulated", action="store_true", help="configure a simulated sensor")
    parser.add_argument("--non-interactive", action="store_true", help="never prompt")
    add_new_passphrase_argument(parser)
    add_passphrase_argument(parser, "read the new passphrase from this file")


def run(arguments: argparse.Namespace) -> int:
    path: Path = arguments.config or find_config(os.environ)
    data: Path = (arguments.data or Path("/var/lib/headgate")).absolute()
    if path.exists() and arguments.missing:
        _make_missing_keys(load_config(path), arguments)
        return ExitCode.OK
    if path.exists():
        raise ConfigError(f"{path}: already exists and was not changed")
    if arguments.missing and not (key_file := data / "keys" / "device.keys").exists():
        _refuse_second_life(key_file, data)
    name = arguments.name or _ask_name(is_asked=not arguments.non_interactive)
    make_directory(path.parent)
    create_file(path, _encoded(compose(name, data, arguments)), mode=CONFIG_MODE)
    try:
        load_config(path)
        device = _make_keys(data / "keys" / "device.keys", arguments)
    except BaseException:  # also Ctrl-C at the prompt for a passphrase
        path.unlink()  # so that the same command can be repeated
        raise
    print(f"{path}: written; edit it, then: headgate check --config {path}", file=sys.stderr)
    print(f"device       {device}")
    return ExitCode.OK


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError("a name or path is not valid UTF-8 and cannot be written to the configuration") from None


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
    try:
        return input(f"Name of this device [{own}]: ").strip() or own
    except EOFError:  # Ctrl-D
        raise KeyboardInterrupt from None


def _make_missing_keys(config: Config, arguments: argparse.Namespace) -> None:
    """For a configuration that came with an image. Raises: ConfigError where a device has lost its own."""
    key_file = key_file_of(config)
    if not key_file.exists():
        _refuse_second_life(key_file, config.device.data_directory)
        print(f"device       {_make_keys(key_file, arguments)}")


def _refuse_second_life(key_file: Path, data: Path) -> None:
    """New keys would make another device of one that has lost its own. Raises: ConfigError."""
    if traces := [name for name in SIGNS_OF_USE if (data / name).exists()]:
        raise ConfigError(
            f"{key_file}: the keys are missing, but a device ran here before ({data / traces[0]}); restore them:"
            f" headgate restore FILE; or remove {data / traces[0]} to begin a new device"
        )


def _make_keys(path: Path, arguments: argparse.Namespace) -> str:
    """The device's address, of new keys or of those that are there."""
    if not path.exists():
        wanted = arguments.with_passphrase or arguments.passphrase_file
        passphrase = new_passphrase_from(arguments.passphrase_file, os.environ) if wanted else None
        create_key_file(path, DeviceKeys.generate(secrets.token_bytes), passphrase)
        print(f"{path}: keys created; keep a copy in a safe place", file=sys.stderr)
    return binding_as_json(read_binding(path))["device"]
