"""The group keys of encrypted streams: those that an operator hands to the ingest, and those that messages hand over.

A group key file is JSON: `{"<stream id>": {"<group key id>": "<64 hex digits>"}}`.

A key that a message hands over opens the messages of the same device only, so that no device can spoil the stream of
another; and it never replaces one that the operator gave. Keys without a name, as version 31 has them, are forgotten
after their archive: nobody could say later which is which.
"""

import binascii
from pathlib import Path
from typing import Final

import orjson

from ingest.errors import IngestError
from ingest.summary import Locked
from protocol.streamr.group_keys.group_key import GroupKey
from runtime.private_files import read_private_file

MAX_KEY_FILE_BYTES: Final = 64 * 1024 * 1024

KeyName = tuple[str, str]  # stream, group key
GroupKeys = dict[str, dict[str, GroupKey]]
LearnedKeys = dict[str, dict[KeyName, GroupKey]]  # by device


class Keyring:
    """The group keys for one archive. It notes which were handed over in it, and which were missing."""

    def __init__(self, given: GroupKeys | None = None, learned: dict[KeyName, GroupKey] | None = None) -> None:
        """`learned` are the keys that the same device handed over before; this archive's are added to them."""
        self._given = given or {}
        self._learned = {} if learned is None else learned
        self._unnamed: dict[str, GroupKey] = {}
        self.handed_over: list[tuple[str, GroupKey]] = []
        self._missing: dict[KeyName, None] = {}
        self._missed_ms: list[int] = []

    def find(self, stream_id: str, group_key_id: str | None) -> GroupKey | None:
        name = group_key_id or ""
        given = self._given.get(stream_id, {}).get(name)
        if not name:
            return self._unnamed.get(stream_id) or given
        return given or self._learned.get((stream_id, name))

    def learn(self, stream_id: str, key: GroupKey) -> None:
        if not key.group_key_id:
            self._unnamed[stream_id] = key
        elif self.find(stream_id, key.group_key_id) is None:
            self._learned[stream_id, key.group_key_id] = key
            self.handed_over.append((stream_id, key))

    def miss(self, stream_id: str, group_key_id: str | None, timestamp_ms: int) -> None:
        """A message of that time stays locked."""
        self._missing.setdefault((stream_id, group_key_id or ""))
        self._missed_ms.append(timestamp_ms)

    def locked(self) -> Locked | None:
        """What is left locked of the archive."""
        if not self._missing:
            return None
        return Locked(tuple(self._missing), min(self._missed_ms), max(self._missed_ms))

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
    data = read_private_file(path, max_bytes=MAX_KEY_FILE_BYTES)
    if len(data) > MAX_KEY_FILE_BYTES:
        raise IngestError(f"{path}: larger than {MAX_KEY_FILE_BYTES} bytes")
    return data
