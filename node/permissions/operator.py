"""Changes of permissions by the operator, who needs only access to the data directory.

A running node writes its address and a new key to `operator.json` in that directory, readable only by its own user.
With it the commands use the REST interface of the node, so that its memory and its disk change together. If no node is
running, the commands open the database themselves.
"""

import asyncio
import http.client
import json
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from node.errors import DataInUse, ErrorCode, Refused, StorageError
from node.limits import Limits
from node.permissions.registry import Registry
from node.storage import Storage, reading
from node.streams import OPERATOR, PUBLIC, Grant, Operation
from runtime.durable_files import replace_file

OPERATOR_FILE: Final = "operator.json"
KEY_BYTES: Final = 32
TIMEOUT_S: Final = 30
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on


class PermissionEditor(Protocol):
    """Every method raises `Refused`, `StorageError`."""

    def grants_on(self, stream_id: str) -> list[tuple[int, Grant]]: ...

    def grant(self, grant: Grant) -> None: ...

    def revoke(self, stream_id: str, number: int) -> None: ...


# --- in the node ---


def new_key() -> str:
    return secrets.token_urlsafe(KEY_BYTES)


def write_operator_file(data: Path, host: str, port: int, key: str) -> None:
    """Raises: OSError."""
    content = json.dumps({"host": _ANYWHERE.get(host, host), "port": port, "key": key})
    replace_file(data / OPERATOR_FILE, content.encode())


def remove_operator_file(data: Path) -> None:
    (data / OPERATOR_FILE).unlink(missing_ok=True)


# --- in the command ---


@contextmanager
def edit_permissions(data: Path) -> Iterator[PermissionEditor]:
    """Raises: `StorageError` if this is not a data directory, or its node cannot be reached; OSError."""
    with reading(data):
        pass  # it is a data directory
    try:
        storage = Storage(data)
    except DataInUse:
        yield _RunningNode(data)
        return
    with closing(storage):
        yield _StoppedNode(storage)


class _StoppedNode:
    def __init__(self, storage: Storage) -> None:
        self._registry = Registry(storage, Limits())

    def grants_on(self, stream_id: str) -> list[tuple[int, Grant]]:
        self._registry.get(stream_id)
        return self._registry.grants_on(stream_id)

    def grant(self, grant: Grant) -> None:
        asyncio.run(self._registry.grant(grant, by=OPERATOR))

    def revoke(self, stream_id: str, number: int) -> None:
        asyncio.run(self._registry.revoke(stream_id, number, by=OPERATOR))


class _RunningNode:
    def __init__(self, data: Path) -> None:
        path = data / OPERATOR_FILE
        try:
            self._where: dict[str, Any] = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            raise StorageError(f"{path}: cannot be read; the node is starting or stopping, try again") from None

    def grants_on(self, stream_id: str) -> list[tuple[int, Grant]]:
        entries = self._call("GET", _path(stream_id))
        return [
            (entry["id"], Grant(stream_id, entry.get("user", PUBLIC), Operation(entry["operation"])))
            for entry in entries
        ]

    def grant(self, grant: Grant) -> None:
        user = {"anonymous": True} if grant.user == PUBLIC else {"user": grant.user}
        self._call("POST", _path(grant.stream_id), {"operation": grant.operation, **user})

    def revoke(self, stream_id: str, number: int) -> None:
        self._call("DELETE", f"{_path(stream_id)}/{number}")

    def _call(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"token {self._where['key']}"}
        data = None if body is None else json.dumps(body)
        try:
            with closing(
                http.client.HTTPConnection(self._where["host"], self._where["port"], timeout=TIMEOUT_S)
            ) as node:
                node.request(method, path, data, headers)
                response = node.getresponse()
                reply = response.read(MAX_REPLY_BYTES)
        except (OSError, http.client.HTTPException) as problem:
            raise StorageError(f"the running node does not respond: {problem or type(problem).__name__}") from None
        parsed = json.loads(reply) if reply else {}
        if response.status >= http.client.BAD_REQUEST:
            raise Refused(ErrorCode(parsed.get("code", ErrorCode.REQUEST_FAILED)), str(parsed.get("error")))
        return parsed


def _path(stream_id: str) -> str:
    return f"/api/v1/streams/{quote(stream_id, safe='')}/permissions"
