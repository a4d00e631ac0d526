"""`headgate backup`: the keys and the configuration of this device, in one file that a passphrase protects."""

import argparse
import secrets
import sys
from pathlib import Path

from agent.clock import SystemClock
from agent.errors import ConfigError, ExitCode
from agent.keys import new_passphrase_from
from agent.operator.arguments import add_config_argument, add_passphrase_argument, load_named_config
from agent.operator.backup import encode_backup, gather_backup
from protocol.ethereum import checksum_address
from runtime.durable_files import create_file

DESCRIPTION = (
    "Save the keys, the configuration, the files it names in its own folder and the clock ceiling to one file,"
    " encrypted with a passphrase. The agent may be running. Messages in the journal are not included."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="the backup file to create; must not exist")
    add_passphrase_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    path: Path = arguments.file
    if path.exists():
        raise ConfigError(f"{path}: exists already and was not changed; choose another name")
    backup, left_out = gather_backup(config, SystemClock().now_ms())
    passphrase = new_passphrase_from(arguments.passphrase_file, {})
    try:
        create_file(path.absolute(), encode_backup(backup, passphrase, secrets.token_bytes))
    except FileExistsError:
        raise ConfigError(f"{path}: exists already and was not changed; choose another name") from None
    count = 2 + len(backup.group_keys) + len(backup.named_files)
    print(
        f"{path}: device {checksum_address(backup.device)}, {count} files; keep the passphrase: it is needed to restore"
    )
    for each in left_out:
        print(f"not included, because it is outside {config.path.absolute().parent}: {each}", file=sys.stderr)
    return ExitCode.OK
