"""`headgate collector`: take archives in, and say who may bring them."""

import argparse
import asyncio
import fcntl
import json
import logging
import os
import resource
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.collector.devices import AllowList, Device, device_from_public_file, parse_address
from ingest.collector.durable_files import make_folder
from ingest.collector.errors import ConfigError
from ingest.collector.intake import Intake
from ingest.collector.keys import (
    SIGNING_KEY,
    PublicKeys,
    create_keys,
    load_public_keys,
    load_signing_key,
    public_as_dict,
)
from ingest.collector.settings import Folders, Limits, Settings, TlsFiles
from protocol.ethereum import checksum_address

if TYPE_CHECKING:
    from ingest.collector.server import Collector

DESCRIPTION = (
    "Take archives from devices over HTTP, check every byte and who signed it, keep them in a landing area for the"
    " ingest, and answer with signed receipts. Only enrolled devices are listened to."
)
DEFAULT_STATE = Path("/var/lib/headgate-collector")
STATE_VARIABLES = ("HEADGATE_COLLECTOR_STATE", "STATE_DIRECTORY")
FILES_PER_CONNECTION = 2  # a socket and a part
SPARE_FILES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help=f"keys, devices and receipts (default: ${' or $'.join(STATE_VARIABLES)}, or {DEFAULT_STATE})",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_run_arguments(actions.add_parser("run", parents=[common], help="serve until told to stop"))
    enrol = actions.add_parser("enrol", parents=[common], help="let a device bring archives")
    enrol.add_argument("device", metavar="ADDRESS|FILE", help="its address, or what 'keys export-public' wrote there")
    enrol.add_argument("--label", default="", help="a name for people, shown by 'devices'")
    revoke = actions.add_parser("revoke", parents=[common], help="let it bring no more, from the next request on")
    revoke.add_argument("device", metavar="ADDRESS")
    devices = actions.add_parser("devices", parents=[common], help="who is enrolled, and who was")
    devices.add_argument("--json", action="store_true", help="one JSON object per line")
    keys = actions.add_parser("keys", help="the collector's own keys")
    key_actions = keys.add_subparsers(dest="key_action", required=True, metavar="ACTION")
    key_actions.add_parser("init", parents=[common], help="make new keys; never replaces any")
    show = key_actions.add_parser("show", parents=[common], help="the public keys, for the devices' configuration")
    show.add_argument("--json", action="store_true", help="for scripts")


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    default = Limits()
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="port 0: any that is free")
    parser.add_argument("--landing", required=True, type=Path, metavar="DIR", help="where the ingest finds archives")
    parser.add_argument(
        "--uploads",
        type=Path,
        metavar="DIR",
        help="unfinished uploads, on the same file system as the landing area (default: beside it, DIR.uploads)",
    )
    parser.add_argument(
        "--tls-certificate", type=Path, metavar="FILE", help="PEM, with its chain; read again on SIGHUP"
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM, without a passphrase")
    for option, value, meaning in (
        ("--max-archive-bytes", default.max_archive_bytes, "larger archives are refused"),
        ("--max-connections", default.max_connections, "beyond, the longest silent one gives way"),
        ("--min-free-bytes", default.min_free_bytes, "what stays free on the disk"),
        ("--device-bytes-per-s", default.device_bytes_per_s, "how fast one device may send"),
        ("--device-requests-per-s", int(default.device_requests_per_s), "how often one device may ask"),
    ):
        parser.add_argument(option, type=int, default=value, metavar="N", help=f"{meaning} (default: {value})")


def run(arguments: argparse.Namespace) -> int:
    state = arguments.state or find_state(os.environ)
    match arguments.action:
        case "run":
            _run(arguments, state)
        case "enrol":
            _enrol(AllowList(state / "devices"), arguments.device, arguments.label)
        case "revoke":
            device = AllowList(state / "devices").revoke(parse_address(arguments.device), _now_ms())
            print(_device_line(device))
        case "devices":
            _list_devices(AllowList(state / "devices"), as_json=arguments.json)
        case "keys" if arguments.key_action == "init":
            _show_keys(create_keys(state / "keys", secrets.token_bytes), as_json=False)
            print(f"{state / 'keys'}: new keys; keep a copy in a safe place", file=sys.stderr)
        case "keys":
            _show_keys(load_public_keys(state / "keys"), as_json=arguments.json)
    return 0


def find_state(environment: Mapping[str, str]) -> Path:
    return next((Path(environment[name]) for name in STATE_VARIABLES if environment.get(name)), DEFAULT_STATE)


def _run(arguments: argparse.Namespace, state: Path) -> None:
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    settings = _settings_from(arguments, state)
    make_folder(state)
    with _only_one(state):
        intake = _open_intake(settings)
        _allow_open_files(settings.limits)
        asyncio.run(_serve(_collector_class()(settings, intake)))


async def _serve(collector: "Collector") -> None:
    """Raises: OSError where it cannot listen, or nobody can be told where it does."""
    collector.catch_signals()
    try:
        await collector.run(lambda url: print(f"listening on {url}", flush=True))
    except* OSError as group:
        raise group.exceptions[0] from None


def _collector_class() -> "type[Collector]":
    try:
        from ingest.collector.server import Collector
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is missing; pip install 'headgate[ingest]'") from error
    return Collector


def _settings_from(arguments: argparse.Namespace, state: Path) -> Settings:
    host, port = _address_from(arguments.listen)
    landing = arguments.landing.absolute()
    uploads = arguments.uploads or landing.with_name(f"{landing.name}.uploads")
    try:
        limits = Limits(
            max_archive_bytes=arguments.max_archive_bytes,
            max_connections=arguments.max_connections,
            min_free_bytes=arguments.min_free_bytes,
            device_bytes_per_s=arguments.device_bytes_per_s,
            device_requests_per_s=arguments.device_requests_per_s,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    folders = Folders(landing=landing, uploads=uploads.absolute(), state=state.absolute())
    return Settings(host=host, port=port, folders=folders, limits=limits, tls=_tls_from(arguments))


def _address_from(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"--listen {text}: HOST:PORT is expected, such as 0.0.0.0:8440 or [::]:8440")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _tls_from(arguments: argparse.Namespace) -> TlsFiles | None:
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise ConfigError("--tls-certificate and --tls-key go together")
    if arguments.tls_certificate is None:
        return None
    return TlsFiles(certificate=arguments.tls_certificate, key=arguments.tls_key)


def _open_intake(settings: Settings) -> Intake:
    """Everything that can be wrong is found here, before anyone is listened to. Raises: ConfigError, OSError."""
    public = load_public_keys(settings.folders.keys)
    signing_key = load_signing_key(settings.folders.keys / SIGNING_KEY)
    if bytes(signing_key.verify_key) != public.signing:
        raise ConfigError(f"{settings.folders.keys}: the signing key and the public keys do not belong together")
    intake = Intake(settings.folders, settings.limits, signing_key, public.sealing)
    intake.landing.check_moves_from(settings.folders.uploads)
    return intake


@contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Raises: ConfigError if a collector runs with the same state already."""
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{state}: another collector uses it") from None
        yield


def _allow_open_files(limits: Limits) -> None:
    """Raises: ConfigError if the system does not allow as many files as the connections may need."""
    wanted = limits.max_connections * FILES_PER_CONNECTION + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise ConfigError(
            f"--max-connections {limits.max_connections} needs {wanted} open files, and {hard} are allowed"
        )
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _enrol(allow_list: AllowList, device: str, label: str) -> None:
    try:
        if device.startswith("0x") and not Path(device).exists():
            enrolled = Device(address=parse_address(device), enrolled_at_ms=_now_ms(), label=label)
        else:
            enrolled = device_from_public_file(Path(device), _now_ms(), label)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    allow_list.enrol(enrolled)
    print(_device_line(enrolled))


def _list_devices(allow_list: AllowList, *, as_json: bool) -> None:
    for device in allow_list.devices():
        print(json.dumps(device.as_dict()) if as_json else _device_line(device))


def _device_line(device: Device) -> str:
    state = "revoked " if device.is_revoked else "enrolled"
    key = "any key" if device.archive_key is None else f"key {device.archive_key.hex()[:16]}…"
    return f"{checksum_address(device.address)}  {state}  {key}  {device.label}".rstrip()


def _show_keys(public: PublicKeys, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(public_as_dict(public)))
    else:
        print(f"signing key  {public.signing.hex()}\nsealing key  {public.sealing.hex()}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
