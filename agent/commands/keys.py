"""`headgate keys`: make, show, protect and carry over the keys that are this device."""

import argparse
import json
import os
import secrets
import sys
from pathlib import Path

from agent.errors import ConfigError
from agent.exit_codes import ExitCode
from agent.keys import (
    DeviceKeys,
    Secret,
    binding_as_json,
    create_key_file,
    find_key_file,
    load_keys,
    new_passphrase_from,
    passphrase_from,
    read_binding,
    read_key_file,
    replace_key_file,
)
from agent.keys.key_store import DEFAULT_KEY_FILE
from agent.keys.private_files import read_private_file
from protocol.archive import Binding, binding_statement

DESCRIPTION = (
    "The device's keys: a secp256k1 identity, whose address is the device's name, and an Ed25519 key for archives,"
    " bound to it by a signed statement. Passphrases and private keys are never taken from the command line."
)
MAX_PRIVATE_KEY_TEXT_BYTES = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--keys", type=Path, metavar="FILE", help=f"the key file (default: $HEADGATE_KEYS, or {DEFAULT_KEY_FILE})"
    )
    unlocking = argparse.ArgumentParser(add_help=False)
    unlocking.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="read the passphrase from this private file"
    )
    making = argparse.ArgumentParser(add_help=False)
    making.add_argument(
        "--with-passphrase", action="store_true", help="lock the key file; asks, unless a file is named"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("init", parents=[where, unlocking, making], help="make new keys; never replaces any")
    show = actions.add_parser("show", parents=[where], help="who this device is")
    show.add_argument("--json", action="store_true", help="for scripts")
    public = actions.add_parser("export-public", parents=[where], help="what a collector's allow-list wants, as JSON")
    public.add_argument("--out", type=Path, metavar="FILE", help="write here instead of to stdout")
    change = actions.add_parser("change-passphrase", parents=[where, unlocking], help="lock, unlock or lock anew")
    change.add_argument(
        "--new-passphrase-file", type=Path, metavar="FILE", help="read the new one from this private file"
    )
    change.add_argument("--remove", action="store_true", help="keep the file without a passphrase")
    carry = actions.add_parser("import", parents=[where, unlocking, making], help="build on an existing Ethereum key")
    carry.add_argument("private_key", metavar="FILE", help="64 hex digits in a private file, or - for stdin")


def run(arguments: argparse.Namespace) -> int:
    path = arguments.keys or find_key_file(os.environ)
    match arguments.action:
        case "init":
            _create(path, DeviceKeys.generate(secrets.token_bytes), arguments)
        case "import":
            identity = _read_private_key(arguments.private_key)
            _create(path, _around(identity), arguments)
        case "show":
            _show(path, as_json=arguments.json)
        case "export-public":
            _export_public(path, arguments.out)
        case "change-passphrase":
            _change_passphrase(path, arguments)
    return ExitCode.OK


def _create(path: Path, keys: DeviceKeys, arguments: argparse.Namespace) -> None:
    wanted = arguments.with_passphrase or arguments.passphrase_file
    passphrase = new_passphrase_from(arguments.passphrase_file, os.environ) if wanted else None
    create_key_file(path, keys, passphrase)
    print(f"{path}: new keys; keep a copy in a safe place", file=sys.stderr)
    print("\n".join(_summary(keys.binding)))


def _show(path: Path, *, as_json: bool) -> None:
    key_file, binding = read_key_file(path), read_binding(path)
    protection = "passphrase" if key_file.has_passphrase else "none"
    if as_json:
        print(json.dumps({**binding_as_json(binding), "file": str(path), "protection": protection}))
    else:
        print("\n".join([*_summary(binding), f"file         {path}", f"protection   {protection}"]))


def _summary(binding: Binding) -> list[str]:
    public = binding_as_json(binding)
    return [f"device       {public['device']}", f"archive key  {public['archive_key']}"]


def _export_public(path: Path, out: Path | None) -> None:
    binding = read_binding(path)
    statement = binding_statement(binding.address, binding.archive_key)
    text = json.dumps({**binding_as_json(binding), "statement": statement}, indent=2)
    if out is None:
        print(text)
    else:
        out.write_text(text + "\n")


def _change_passphrase(path: Path, arguments: argparse.Namespace) -> None:
    old = arguments.passphrase_file
    keys = load_keys(path, lambda: passphrase_from(old, os.environ, prompt="Present passphrase: "))
    new = None if arguments.remove else new_passphrase_from(arguments.new_passphrase_file, {})
    replace_key_file(path, keys, new)
    print(f"{path}: {'no passphrase any more' if new is None else 'locked with the new passphrase'}", file=sys.stderr)


def _read_private_key(source: str) -> Secret:
    if source == "-":
        text = Secret(sys.stdin.buffer.read(MAX_PRIVATE_KEY_TEXT_BYTES + 1))
    else:
        text = Secret(read_private_file(Path(source), max_bytes=MAX_PRIVATE_KEY_TEXT_BYTES))
    try:
        return Secret(bytes.fromhex(text.reveal().decode().strip().removeprefix("0x")))
    except ValueError:
        raise ConfigError(f"{source}: not a private key of 64 hex digits") from None


def _around(identity: Secret) -> DeviceKeys:
    try:
        return DeviceKeys.generate(secrets.token_bytes, identity=identity)
    except ValueError as error:
        raise ConfigError(str(error)) from None
