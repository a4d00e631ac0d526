"""The group keys of encrypted streams that an operator hands to the ingest.

A group key file is JSON: `{"<stream id>": {"<group key id>": "<64 hex digits>"}}`. Keys that a message hands over are
learned within its archive and forgotten after it, so that the tables do not depend on who decoded what first.
"""

import binascii
from pathlib import Path
from typing import Final

import orjson

from ingest.errors import IngestError
from protocol.streamr.group_key import GroupKey

__all__ = ["GroupKeys", "Keyring", "read_group_keys"]

MAX_KEY_FILE_BYTES: Final = 64 * 1024 * 1024

GroupKeys = dict[str, dict[str, GroupKey]]


class Keyring:
    """The group keys that are known, by stream and id."""

    def __init__(self, given: GroupKeys | None = None) -> None:
        self._given = given or {}
        self._learned: dict[tuple[str, str], GroupKey] = {}

    def find(self, stream_id: str, group_key_id: str | None) -> GroupKey | None:
        name = group_key_id or ""
        return self._learned.get((stream_id, name)) or self._given.get(stream_id, {}).get(name)

    def learn(self, stream_id: str, key: GroupKey) -> None:
        """A key given by the operator is never replaced."""
        if key.group_key_id not in self._given.get(stream_id, {}):
            self._learned[stream_id, key.group_key_id] = key

    def __repr__(self) -> str:
        return f"Keyring({sum(map(len, self._given.values()))} keys of {len(self._given)} streams)"


def read_group_keys(path: Path) -> GroupKeys:
    """Raises: IngestError, which names the stream and the key id, never the key."""
    try:
        document = orjson.loads(_read_bounded(path))
        return {stream: _stream_keys(path, stream, keys) for stream, keys in document.items()}
    except (orjson.JSONDecodeError, AttributeError):
        raise IngestError(f"{path}: not a JSON object of streams, each an object of key ids") from None


def _stream_keys(path: Path, stream: str, keys: dict[str, str]) -> dict[str, GroupKey]:
    found = {}
    for name, digits in keys.items():
        try:
            found[name] = GroupKey(name, binascii.unhexlify(digits))
        except (TypeError, ValueError):
            raise IngestError(f"{path}: key {name!r} of {stream!r} is not 64 hex digits") from None
    return found


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_KEY_FILE_BYTES + 1)
    if len(data) > MAX_KEY_FILE_BYTES:
        raise IngestError(f"{path}: larger than {MAX_KEY_FILE_BYTES} bytes")
    return data
