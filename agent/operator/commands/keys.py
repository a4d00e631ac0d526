"""`headgate keys`: creates, shows, protects, imports and exports the device's keys."""

import argparse
import json
import os
import secrets
import sys
from pathlib import Path

from agent.errors import ConfigError, ExitCode
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
from agent.keys.machine import adopt_keys, free_keys, machine_of_keys, this_machine
from agent.operator.arguments import add_new_passphrase_argument, add_passphrase_argument
from protocol.binding import Binding
from runtime.durable_files import replace_file
from runtime.private_files import read_private_file

DESCRIPTION = (
    "The device's keys: a secp256k1 identity, whose address is the device's name on the network, and an Ed25519"
    " key that signs archives. Passphrases and private keys are never read from the command line."
)
MAX_PRIVATE_KEY_TEXT_BYTES = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--keys", type=Path, metavar="FILE", help=f"the key file (default: $HEADGATE_KEYS, or {DEFAULT_KEY_FILE})"
    )
    unlocking = argparse.ArgumentParser(add_help=False)
    add_passphrase_argument(unlocking)
    making = argparse.ArgumentParser(add_help=False)
    add_new_passphrase_argument(making)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "init", parents=[where, unlocking, making], help="create new keys; existing keys are never replaced"
    )
    show = actions.add_parser("show", parents=[where], help="show the device's address and public keys")
    show.add_argument("--json", action="store_true", help="print JSON")
    public = actions.add_parser(
        "export-public", parents=[where], help="print the public keys as JSON, for 'headgate collector enrol'"
    )
    public.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead of stdout")
    groups = actions.add_parser(
        "export-group-keys",
        parents=[where, unlocking],
        help="print the keys of encrypted streams as JSON, for --group-keys of 'ingest run' and 'subscribe'",
    )
    groups.add_argument(
        "--groups", type=Path, metavar="DIR", help="directory of the group keys (default: groups beside the key file)"
    )
    groups.add_argument(
        "--stream", action="append", metavar="ID", help="only the keys of this stream; may be given several times"
    )
    groups.add_argument("--out", type=Path, metavar="FILE", help="write to this file (mode 0600) instead of stdout")
    change = actions.add_parser(
        "change-passphrase", parents=[where, unlocking], help="set, change or remove the passphrase of the key file"
    )
    change.add_argument(
        "--new-passphrase-file",
        type=Path,
        metavar="FILE",
        help="read the new passphrase from this private file (default: prompt)",
    )
    change.add_argument("--remove", action="store_true", help="remove the passphrase")
    adopt = actions.add_parser(
        "adopt",
        parents=[where],
        help="allow this machine to use keys created on another machine, which must never run again",
    )
    adopt.add_argument(
        "--any-machine", action="store_true", help="allow any machine, for cards that move between boards"
    )
    carry = actions.add_parser(
        "import", parents=[where, unlocking, making], help="create keys from an existing Ethereum private key"
    )
    carry.add_argument("private_key", metavar="FILE", help="private file with 64 hex digits, or - for stdin")


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
        case "adopt":
            _adopt(path, is_free=arguments.any_machine)
        case "export-group-keys":
            _export_group_keys(path, arguments)
        case "change-passphrase":
            _change_passphrase(path, arguments)
    return ExitCode.OK


def _create(path: Path, keys: DeviceKeys, arguments: argparse.Namespace) -> None:
    wanted = arguments.with_passphrase or arguments.passphrase_file
    passphrase = new_passphrase_from(arguments.passphrase_file, os.environ) if wanted else None
    create_key_file(path, keys, passphrase)
    print(f"{path}: keys created; keep a copy in a safe place", file=sys.stderr)
    print("\n".join(_summary(keys.binding)))


def _show(path: Path, *, as_json: bool) -> None:
    key_file, binding = read_key_file(path), read_binding(path)
    protection = "passphrase" if key_file.has_passphrase else "none"
    if as_json:
        facts = {"file": str(path), "protection": protection, "machine": _machine(path)}
        print(json.dumps({**binding_as_json(binding), **facts}))
    else:
        lines = [f"file         {path}", f"protection   {protection}", f"machine      {_machine(path)}"]
        print("\n".join([*_summary(binding), *lines]))


def _adopt(path: Path, *, is_free: bool) -> None:
    read_key_file(path)
    (free_keys if is_free else adopt_keys)(path)
    print(f"{path}: {'any machine' if is_free else 'this machine'} may use these keys", file=sys.stderr)


def _machine(path: Path) -> str:
    machine = machine_of_keys(path)
    if machine is None:
        return "any"
    return "this one" if machine.is_same(this_machine()) else "another"


def _summary(binding: Binding) -> list[str]:
    public = binding_as_json(binding)
    return [f"device       {public['device']}", f"archive key  {public['archive_key']}"]


def _export_public(path: Path, out: Path | None) -> None:
    binding = read_binding(path)
    text = json.dumps(binding_as_json(binding), indent=2)
    if out is None:
        print(text)
    else:
        out.write_text(text + "\n")


def _export_group_keys(path: Path, arguments: argparse.Namespace) -> None:
    from agent.keys.group_keys import GroupKeyStore, group_keys_as_json

    folder = arguments.groups or path.parent / "groups"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no group keys; the first key of a stream is created with its first message")
    keys = load_keys(path, lambda: passphrase_from(arguments.passphrase_file, os.environ, prompt="Passphrase: "))
    found = GroupKeyStore(folder, keys).all()
    for stream in arguments.stream or ():
        if stream not in found:
            raise ConfigError(f"{stream}: no group key; streams with keys: {', '.join(found) or 'none'}")
    chosen = {stream: found[stream] for stream in arguments.stream or found}
    text = group_keys_as_json(chosen)
    if arguments.out is None:
        sys.stdout.write(text.decode())
    else:
        replace_file(arguments.out, text)
        count = sum(map(len, chosen.values()))
        print(f"{arguments.out}: {count} keys of {len(chosen)} streams; keep the file secret", file=sys.stderr)


def _change_passphrase(path: Path, arguments: argparse.Namespace) -> None:
    old = arguments.passphrase_file
    keys = load_keys(path, lambda: passphrase_from(old, os.environ, prompt="Current passphrase: "))
    new = None if arguments.remove else new_passphrase_from(arguments.new_passphrase_file, {})
    replace_key_file(path, keys, new)
    print(
        f"{path}: {'the passphrase was removed' if new is None else 'protected with the new passphrase'}",
        file=sys.stderr,
    )


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
