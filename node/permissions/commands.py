"""`headgate node grant` and `headgate node revoke`."""

import argparse
import json
from typing import Final

from node.config import DEFAULT_DATA, PUBLIC_NAME
from node.errors import ConfigError
from node.permissions.operator import PermissionEditor, edit_permissions
from node.streams import PUBLIC, Grant, Operation
from protocol.ethereum.hashing import is_address
from runtime.local_paths import local_path

EVERYTHING: Final = "everything"
OPERATIONS: Final = {operation.removeprefix("stream_"): operation for operation in Operation}
NEEDS_GET: Final = (Operation.PUBLISH, Operation.SUBSCRIBE)  # clients get the stream before both


def add_grant_arguments(parser: argparse.ArgumentParser) -> None:
    _add_arguments(parser, "+", "permissions to grant; publish and subscribe include get")


def add_revoke_arguments(parser: argparse.ArgumentParser) -> None:
    _add_arguments(parser, "*", "permissions to remove (default: everything)")


def _add_arguments(parser: argparse.ArgumentParser, count: str, what: str) -> None:
    parser.add_argument("stream", metavar="STREAM", help="the id of the stream")
    parser.add_argument("user", metavar="USER", help=f"Ethereum address (0x…), or {PUBLIC_NAME}")
    parser.add_argument("operations", nargs=count, metavar="OPERATION", help=f"{what}: {', '.join(_choices())}")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the change as JSON")


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    text = "data directory of the node (default: %(default)s)"
    parser.add_argument("--data", type=local_path, default=DEFAULT_DATA, metavar="DIR", help=text)


def _choices() -> list[str]:
    return [*OPERATIONS, EVERYTHING]


def run_grant(arguments: argparse.Namespace) -> int:
    """Raises: `ConfigError`, `Refused`, `StorageError`."""
    user, operations = _user(arguments.user), _operations(arguments.operations)
    if any(operation in NEEDS_GET for operation in operations):
        operations = list(dict.fromkeys([*operations, Operation.GET]))
    with edit_permissions(arguments.data) as editor:
        changed = _grant(editor, [Grant(arguments.stream, user, operation) for operation in operations])
    _show("granted", changed, as_json=arguments.json)
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    """Raises: `ConfigError`, `Refused`, `StorageError`."""
    user, operations = _user(arguments.user), _operations(arguments.operations or [EVERYTHING])
    with edit_permissions(arguments.data) as editor:
        changed = _revoke(editor, {Grant(arguments.stream, user, operation) for operation in operations})
    _show("revoked", changed, as_json=arguments.json)
    return 0


def _grant(editor: PermissionEditor, grants: list[Grant]) -> list[Grant]:
    present = {grant for _, grant in editor.grants_on(grants[0].stream_id)}
    missing = [grant for grant in grants if grant not in present]
    for grant in missing:
        editor.grant(grant)
    return missing


def _revoke(editor: PermissionEditor, unwanted: set[Grant]) -> list[Grant]:
    (stream_id, *_), *_ = unwanted
    found = [(number, grant) for number, grant in editor.grants_on(stream_id) if grant in unwanted]
    for number, _ in found:
        editor.revoke(stream_id, number)
    return [grant for _, grant in found]


def _user(text: str) -> str:
    if text == PUBLIC_NAME:
        return PUBLIC
    if not is_address(text):
        raise ConfigError(f"USER: {text!r} is not an address (0x and 40 hex digits) or {PUBLIC_NAME!r}")
    return text.lower()


def _operations(words: list[str]) -> list[Operation]:
    for word in words:
        if word not in _choices():
            raise ConfigError(f"OPERATION: {word!r} is not one of {', '.join(_choices())}")
    return list(Operation) if EVERYTHING in words else [OPERATIONS[word] for word in words]


def _show(change: str, grants: list[Grant], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"change": change, "stream": stream_id, "user": user or PUBLIC_NAME, "operation": operation}
            for stream_id, user, operation in grants
        ]
        print(json.dumps(rows))
        return
    for stream_id, user, operation in grants:
        preposition = "to" if change == "granted" else "from"
        print(f"{change} {operation} on {stream_id} {preposition} {user or PUBLIC_NAME}")
    if not grants:
        print(f"nothing to change: already {change}" if change == "granted" else "nothing to revoke")
