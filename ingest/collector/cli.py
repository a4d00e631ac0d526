"""`headgate collector`: receive archives from devices, and manage which devices may upload."""

import argparse
import fcntl
import json
import logging
import os
import resource
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ingest.collector.devices import (
    MIN_KEY_DIGITS,
    AllowList,
    Device,
    device_from_public_file,
    parse_address,
    parse_archive_key,
)
from ingest.collector.errors import ConfigError
from ingest.collector.intake import Intake, now_ms
from ingest.collector.keys import (
    SIGNING_KEY,
    PublicKeys,
    create_keys,
    load_public_keys,
    load_signing_key,
    public_as_dict,
)
from ingest.collector.log_report import as_table, read_reports
from ingest.collector.settings import Folders, Limits, Settings, TlsFiles
from protocol.ethereum import checksum_address
from runtime.durable_files import PRIVATE_DIRECTORY, make_directory
from runtime.local_paths import local_path
from runtime.settings import listen_option
from runtime.stopping import run_and_end

if TYPE_CHECKING:
    from ingest.collector.server import Collector

DESCRIPTION = (
    "Receive archives from devices over HTTP, verify every byte and signature, store them in a landing area for"
    " ingest, and answer with signed receipts. Only enrolled devices are accepted."
)
DEFAULT_STATE = Path("/var/lib/headgate-collector")
STATE_VARIABLES = ("HEADGATE_COLLECTOR_STATE", "STATE_DIRECTORY")
FILES_PER_CONNECTION = 2  # a socket and a part
SPARE_FILES = 64

LIMIT_OPTIONS = {
    "max_archive_bytes": "largest accepted archive, in bytes",
    "max_connections": "most connections; at the limit, a connection without an accepted upload is closed",
    "max_connections_per_address": "most connections per IPv4 address or IPv6 /64; raise it behind a proxy",
    "min_free_bytes": "bytes to leave free on the disk",
    "device_bytes_per_s": "upload rate limit per device, in bytes per second",
    "device_requests_per_s": "request rate limit per device, per second",
    "max_logs_per_device": "most device logs per device",
    "max_fork_bytes_per_device": "most bytes of evidence of forked logs per device",
}

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--state",
        type=local_path,
        metavar="DIR",
        help=f"directory of keys, devices and receipts (default: ${' or $'.join(STATE_VARIABLES)}, or {DEFAULT_STATE})",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_run_arguments(actions.add_parser("run", parents=[common], help="run the collector until SIGTERM"))
    enrol = actions.add_parser("enrol", parents=[common], help="allow a device to upload archives")
    enrol.add_argument(
        "device",
        metavar="ADDRESS|FILE",
        help="address of the device, or the file written by 'headgate keys export-public'",
    )
    enrol.add_argument(
        "--archive-key", metavar="KEY", help="archive key of a device given by address; confirms it immediately"
    )
    enrol.add_argument("--label", default="", help="label of the device, shown by 'devices'")
    confirm = actions.add_parser(
        "confirm", parents=[common], help="accept the archive key of a device that was enrolled by its address"
    )
    confirm.add_argument("device", metavar="ADDRESS")
    confirm.add_argument(
        "key", metavar="KEY", help="archive key shown by 'headgate keys show' on the device; at least 16 digits"
    )
    revoke = actions.add_parser("revoke", parents=[common], help="refuse uploads of a device, from the next request on")
    revoke.add_argument("device", metavar="ADDRESS")
    devices = actions.add_parser("devices", parents=[common], help="list enrolled and revoked devices")
    devices.add_argument("--json", action="store_true", help="one JSON object per line")
    logs = actions.add_parser(
        "logs", parents=[common], help="show what is held and missing of the device logs, and what is on the devices"
    )
    logs.add_argument("--device", metavar="ADDRESS", help="only the logs of this device")
    logs.add_argument("--json", action="store_true", help="one JSON object per line")
    keys = actions.add_parser("keys", help="manage the collector's keys")
    key_actions = keys.add_subparsers(dest="key_action", required=True, metavar="ACTION")
    key_actions.add_parser("init", parents=[common], help="create new keys; existing keys are never replaced")
    show = key_actions.add_parser(
        "show", parents=[common], help="show the public keys, for the configuration of devices"
    )
    show.add_argument("--json", action="store_true", help="print JSON")


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="address to listen on; port 0 picks a free one"
    )
    parser.add_argument(
        "--landing",
        required=True,
        type=local_path,
        metavar="DIR",
        help="landing area: directory where ingest finds archives",
    )
    parser.add_argument(
        "--uploads",
        type=local_path,
        metavar="DIR",
        help="directory of unfinished uploads, on the same file system as the landing area (default: DIR.uploads)",
    )
    parser.add_argument(
        "--cert-file", type=local_path, metavar="FILE", help="TLS certificate with its chain (PEM); reloaded on SIGHUP"
    )
    parser.add_argument(
        "--key-file", type=local_path, metavar="FILE", help="private key of the certificate (PEM, without a passphrase)"
    )
    parser.add_argument(
        "--monitoring-listen",
        metavar="HOST:PORT",
        help="serve /metrics and /healthz on this address over plain HTTP, not on --listen",
    )
    for name, meaning in LIMIT_OPTIONS.items():
        option, value = f"--{name.replace('_', '-')}", int(getattr(Limits(), name))
        parser.add_argument(option, type=int, default=value, metavar="N", help=f"{meaning} (default: {value})")


def run(arguments: argparse.Namespace) -> int:
    state = arguments.state or find_state(os.environ)
    match arguments.action:
        case "run":
            _run(arguments, state)
        case "enrol":
            _enrol(AllowList(state / "devices"), arguments)
        case "confirm":
            device = AllowList(state / "devices").confirm(parse_address(arguments.device), arguments.key)
            print(_device_line(device))
        case "revoke":
            device = AllowList(state / "devices").revoke(parse_address(arguments.device), now_ms())
            print(_device_line(device))
        case "devices":
            _list_devices(AllowList(state / "devices"), as_json=arguments.json)
        case "logs":
            _list_logs(state, arguments)
        case "keys" if arguments.key_action == "init":
            _show_keys(create_keys(state / "keys", secrets.token_bytes), as_json=False)
            print(f"{state / 'keys'}: keys created; keep a copy in a safe place", file=sys.stderr)
        case "keys":
            _show_keys(load_public_keys(state / "keys"), as_json=arguments.json)
    return 0


def find_state(environment: Mapping[str, str]) -> Path:
    return next((Path(environment[name]) for name in STATE_VARIABLES if environment.get(name)), DEFAULT_STATE)


def _run(arguments: argparse.Namespace, state: Path) -> None:
    from ingest.collector.server import Collector  # imports the HTTP server, which only `run` needs

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    settings = _settings_from(arguments, state)
    make_directory(state, mode=PRIVATE_DIRECTORY)
    with _only_one(state):
        intake = _open_intake(settings)
        _allow_open_files(settings.limits)
        run_and_end(_serve(Collector(settings, intake)))


async def _serve(collector: "Collector") -> None:
    """Raises: OSError if it cannot listen, or cannot print the URL."""
    collector.catch_signals()
    try:
        await collector.run(lambda url: print(f"listening on {url}", flush=True))
    except* OSError as group:
        raise group.exceptions[0] from None


def _settings_from(arguments: argparse.Namespace, state: Path) -> Settings:
    """Raises: ConfigError with every problem."""
    problems: list[str] = []

    def collected(read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except ConfigError as error:
            problems.extend(error.problems)
            return otherwise

    host, port = collected(lambda: listen_option("--listen", arguments.listen), ("", 0))
    listen = arguments.monitoring_listen
    monitoring = collected(lambda: listen_option("--monitoring-listen", listen), ("", 0)) if listen else None
    settings = Settings(
        host=host,
        port=port,
        folders=collected(lambda: _folders_from(arguments, state), Folders(landing=state, uploads=state, state=state)),
        limits=collected(lambda: Limits(**{name: getattr(arguments, name) for name in LIMIT_OPTIONS}), Limits()),
        tls=collected(lambda: _tls_from(arguments), None),
        monitoring=monitoring,
    )
    if problems:
        raise ConfigError(*problems)
    return settings


def _folders_from(arguments: argparse.Namespace, state: Path) -> Folders:
    landing = arguments.landing.absolute()
    if not landing.name:
        raise ConfigError(f"--landing {landing}: expected a directory of its own, such as /var/lib/headgate-landing")
    uploads = arguments.uploads or landing.with_name(f"{landing.name}.uploads")
    return Folders(landing=landing, uploads=uploads.absolute(), state=state.absolute())


def _tls_from(arguments: argparse.Namespace) -> TlsFiles | None:
    if (arguments.cert_file is None) != (arguments.key_file is None):
        raise ConfigError("--cert-file and --key-file must be given together")
    if arguments.cert_file is None:
        return None
    return TlsFiles(certificate=arguments.cert_file, key=arguments.key_file)


def _open_intake(settings: Settings) -> Intake:
    """Check everything before listening. Raises: ConfigError, OSError."""
    public = load_public_keys(settings.folders.keys)
    signing_key = load_signing_key(settings.folders.keys / SIGNING_KEY)
    if bytes(signing_key.verify_key) != public.signing:
        raise ConfigError(f"{settings.folders.keys}: the signing key does not match the public keys")
    intake = Intake(settings.folders, settings.limits, signing_key, public.encryption)
    intake.landing.check_moves_from(settings.folders.uploads)
    return intake


@contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Raises: ConfigError if a collector runs with the same state already."""
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{state}: in use by another collector") from None
        yield


def _allow_open_files(limits: Limits) -> None:
    """Raises: ConfigError if the system does not allow as many files as the connections may need."""
    required = limits.max_connections * FILES_PER_CONNECTION + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and required > hard:
        raise ConfigError(
            f"--max-connections {limits.max_connections} needs {required} open files; {hard} are allowed (ulimit -n)"
        )
    if soft != resource.RLIM_INFINITY and required > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (required, hard))


def _enrol(allow_list: AllowList, arguments: argparse.Namespace) -> None:
    device, label = arguments.device, arguments.label
    try:
        if device.startswith("0x") and not Path(device).exists():
            key = None if arguments.archive_key is None else parse_archive_key(arguments.archive_key)
            enrolled = Device(address=parse_address(device), archive_key=key, enrolled_at_ms=now_ms(), label=label)
        elif arguments.archive_key is not None:
            raise ConfigError("--archive-key is only for a device given by its address; a file contains the key")
        else:
            enrolled = device_from_public_file(Path(device), now_ms(), label)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    allow_list.enrol(enrolled)
    print(_device_line(enrolled))
    if enrolled.archive_key is None:
        print(
            "its archive key is not known yet: uploads are refused until the key that it offers is confirmed"
            " ('headgate collector devices' shows the key, 'headgate collector confirm' accepts it);"
            " no confirmation is needed if you enrol the file that 'headgate keys export-public' writes on the device",
            file=sys.stderr,
        )


def _list_devices(allow_list: AllowList, *, as_json: bool) -> None:
    for device in allow_list.devices():
        offered = None if device.offered_key is None else device.offered_key.hex()
        print(json.dumps({**device.as_dict(), "offered_key": offered}) if as_json else _device_line(device))


def _list_logs(state: Path, arguments: argparse.Namespace) -> None:
    device = None if arguments.device is None else parse_address(arguments.device)
    reports = list(read_reports(state / "logs", AllowList(state / "devices"), device))
    if arguments.json:
        for each in reports:
            print(json.dumps(each.as_dict()))
    elif reports:
        print(as_table(reports))
    else:
        print(f"{state / 'logs'}: no logs", file=sys.stderr)


def _device_line(device: Device) -> str:
    state = "revoked " if device.is_revoked else "enrolled"
    return f"{checksum_address(device.address)}  {state}  {_key_state(device)}  {device.label}".rstrip()


def _key_state(device: Device) -> str:
    if device.archive_key is not None:
        return f"key {device.archive_key.hex()[:MIN_KEY_DIGITS]}…"
    if device.offered_key is None:
        return "key not known yet"
    return f"NOT CONFIRMED: offers key {device.offered_key.hex()[:MIN_KEY_DIGITS]}…"


def _show_keys(public: PublicKeys, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(public_as_dict(public)))
    else:
        print(f"signing key     {public.signing.hex()}\nencryption key  {public.encryption.hex()}")
