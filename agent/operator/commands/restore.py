"""`headgate restore`: installs the keys and the configuration from a backup."""

import argparse
import json
import sys
from pathlib import Path

from agent.clock import SystemClock
from agent.config.configuration import SYSTEM_CONFIG
from agent.errors import ConfigError, ExitCode
from agent.keys import passphrase_from
from agent.operator.arguments import add_passphrase_argument
from agent.operator.backup import Backup, decode_backup, restore_backup
from agent.operator.backup.backup_file import MAX_BACKUP_BYTES
from agent.operator.backup.device_files import destinations_of
from protocol.errors import WireError
from protocol.ethereum import checksum_address

DESCRIPTION = (
    "Install the keys and the configuration from a backup, with the owners and modes that the service needs."
    " The device that was backed up must never run again."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file written by 'headgate backup'")
    text = "configuration file to write (default: %(default)s)"
    parser.add_argument("--config", type=Path, default=SYSTEM_CONFIG, metavar="FILE", help=text)
    text = "data directory (default: the one in the backed-up configuration)"
    parser.add_argument("--data", type=Path, metavar="DIR", help=text)
    add_passphrase_argument(parser, "read the passphrase of the backup from this file (default: prompt)")
    parser.add_argument("--force", action="store_true", help="overwrite existing files, even those of another device")
    parser.add_argument("--list", action="store_true", help="list the content of the backup and write nothing")
    parser.add_argument("--json", action="store_true", help="with --list: print JSON")


def run(arguments: argparse.Namespace) -> int:
    backup = _read(arguments.file, arguments.passphrase_file)
    config: Path = arguments.config.absolute()
    data = (arguments.data or Path(backup.data_directory)).absolute()
    if arguments.list:
        _list(backup, config, data, as_json=arguments.json)
        return ExitCode.OK
    clock = SystemClock().read()
    now_ms = SystemClock().now_ms() if clock.is_synchronised else 0
    for path in restore_backup(backup, config, data, now_ms, is_forced=arguments.force):
        print(path)
    if (data / "journal").exists():
        print(
            f"{data / 'journal'}: already existed and was not changed; check that it belongs to this device",
            file=sys.stderr,
        )
    print(
        f"device {checksum_address(backup.device)} is restored; next: headgate check, headgate systemd --write,"
        " systemctl daemon-reload, systemctl enable --now headgate",
        file=sys.stderr,
    )
    return ExitCode.OK


def _read(path: Path, passphrase_file: Path | None) -> Backup:
    with path.open("rb") as file:
        data = file.read(MAX_BACKUP_BYTES + 1)
    try:
        return decode_backup(data, lambda: passphrase_from(passphrase_file, {}, prompt="Passphrase: "))
    except WireError as error:
        raise type(error)(f"{path}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _list(backup: Backup, config: Path, data: Path, *, as_json: bool) -> None:
    files = [str(each.path) for each in destinations_of(backup, config, data, 0)]
    facts = {"device": checksum_address(backup.device), "made_at_ms": backup.made_at_ms, "headgate": backup.headgate}
    if as_json:
        print(json.dumps({**facts, "files": files}))
    else:
        print("\n".join([*(f"{name:<13}{value}" for name, value in facts.items()), *files]))
