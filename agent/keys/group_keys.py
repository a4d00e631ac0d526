"""Stores the group keys of encrypted streams: the current one and all earlier ones.

One file per stream, named by a hash of the stream's id, so that a rotation rewrites little. Its layout:

| bytes | what |
|---|---|
| 8 | `HGGRPK` and the version, 2 bytes |
| … | a libsodium secret box (nonce first) under a key derived from the device's vault secret |

In the box is a CBOR map: `stream`, `device`, and `keys`, a list of `[key id, created_at_ms, 32 bytes]`, oldest first.

An export holds the keys as JSON, to decrypt streams without a key exchange. It must be a private file.

    {"<stream id>": {"<group key id>": "<64 hex digits>"}}
"""

import binascii
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from agent.errors import ConfigError
from agent.keys.device_keys import DeviceKeys
from agent.keys.files import make_private_folder
from agent.keys.secret import Secret
from protocol import strict_cbor
from protocol.errors import WireError
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.strict_cbor import CborBounds, CborValue, field, items
from runtime.durable_files import replace_file, sync_directory
from runtime.private_files import read_private_file

MAGIC = b"HGGRPK"
VERSION = 1
PREAMBLE = MAGIC + VERSION.to_bytes(2, "big")
SUFFIX = ".group-keys"

GROUP_KEY_BYTES = 32
MAX_KEY_ID_BYTES = 256
MAX_STREAM_ID_BYTES = 1024
MAX_KEYS_PER_STREAM = 8_192  # one per day for 22 years
_BOUNDS = CborBounds(max_bytes=4 * 1024 * 1024, max_items=8 + 4 * MAX_KEYS_PER_STREAM, max_depth=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGroupKey:
    """One AES-256 key of a stream; the key is masked in its repr."""

    key_id: str
    created_at_ms: int
    secret: Secret

    def __post_init__(self) -> None:
        if not 1 <= len(self.key_id.encode()) <= MAX_KEY_ID_BYTES:
            raise ValueError(f"key id of {len(self.key_id.encode())} bytes, not within 1..{MAX_KEY_ID_BYTES}")
        if self.created_at_ms < 0:
            raise ValueError(f"created_at_ms {self.created_at_ms} is negative")
        if len(self.secret) != GROUP_KEY_BYTES:
            raise ValueError(f"group key of {len(self.secret)} bytes, not {GROUP_KEY_BYTES}")


class GroupKeyStore:
    """The group keys of one device, in one private folder. A key is durable when `add` returns."""

    def __init__(self, folder: Path, keys: DeviceKeys) -> None:
        make_private_folder(folder)
        sync_directory(folder)  # a process that was killed may have left a key under a name that is not durable
        self._folder = folder
        self._device = keys.address
        self._box = SecretBox(keys.derive(b"group keys").reveal())
        self._known: dict[str, tuple[KeptGroupKey, ...]] = {}

    def add(self, stream_id: str, key: KeptGroupKey) -> None:
        """Make this the current key of the stream. Adding the same key again changes nothing.

        Raises: ValueError if another key has this id, or the stream has the maximum number of keys.
        """
        history = self.history(stream_id)
        taken = self.by_id(stream_id, key.key_id)
        if taken is not None:
            if taken.secret != key.secret:
                raise ValueError(f"{stream_id}: key id {key.key_id} is already used by another key")
            return
        if len(history) >= MAX_KEYS_PER_STREAM:
            raise ValueError(f"{stream_id}: {MAX_KEYS_PER_STREAM} keys are stored, the limit; no key can be added")
        self._write(stream_id, (*history, key))

    def current(self, stream_id: str) -> KeptGroupKey | None:
        history = self.history(stream_id)
        return history[-1] if history else None

    def by_id(self, stream_id: str, key_id: str) -> KeptGroupKey | None:
        return next((key for key in self.history(stream_id) if key.key_id == key_id), None)

    def history(self, stream_id: str) -> tuple[KeptGroupKey, ...]:
        """Every key of the stream, oldest first. Raises: ConfigError if its file is damaged or not of this device."""
        if stream_id not in self._known:
            self._known[stream_id] = self._read(stream_id)
        return self._known[stream_id]

    def all(self) -> dict[str, tuple[KeptGroupKey, ...]]:
        """Every key of every stream, by stream. Raises: ConfigError if a file is damaged or not of this device."""
        found = (self._open(path) for path in sorted(self._folder.glob(f"*{SUFFIX}")))
        return dict(sorted(found))

    def _path(self, stream_id: str) -> Path:
        return self._folder / (hashlib.sha256(stream_id.encode()).hexdigest()[:32] + SUFFIX)

    def _write(self, stream_id: str, keys: tuple[KeptGroupKey, ...]) -> None:
        if len(stream_id.encode()) > MAX_STREAM_ID_BYTES:
            raise ValueError(f"stream id of {len(stream_id.encode())} bytes, at most {MAX_STREAM_ID_BYTES}")
        plain = Secret(strict_cbor.encode({"stream": stream_id, "device": self._device, "keys": _keys_to_cbor(keys)}))
        box = self._box.encrypt(plain.reveal(), secrets.token_bytes(SecretBox.NONCE_SIZE))
        replace_file(self._path(stream_id), PREAMBLE + bytes(box))
        self._known[stream_id] = keys

    def _read(self, stream_id: str) -> tuple[KeptGroupKey, ...]:
        try:
            return self._open(self._path(stream_id))[1]
        except FileNotFoundError:
            return ()

    def _open(self, path: Path) -> tuple[str, tuple[KeptGroupKey, ...]]:
        """A stream and its keys. Raises: ConfigError, FileNotFoundError."""
        data = read_private_file(path, max_bytes=_BOUNDS.max_bytes)
        if not data.startswith(PREAMBLE):
            raise ConfigError(f"{path}: not a group key file of version {VERSION}; restore it from a backup")
        try:
            stream_id, keys = self._decode(Secret(self._box.decrypt(data[len(PREAMBLE) :])))
        except (CryptoError, WireError, ValueError):
            raise ConfigError(f"{path}: damaged, or from another device; restore it from a backup") from None
        if self._path(stream_id) != path:
            raise ConfigError(f"{path}: contains the keys of another stream; restore it from a backup")
        return stream_id, keys

    def _decode(self, plain: Secret) -> tuple[str, tuple[KeptGroupKey, ...]]:
        found = strict_cbor.fields(strict_cbor.decode(plain.reveal(), _BOUNDS), "stream", "device", "keys")
        if found["device"] != self._device:
            raise ValueError("the keys of another device")
        return field(found["stream"], str), tuple(_key_from_cbor(*items(each, 3)) for each in items(found["keys"]))


def _keys_to_cbor(keys: tuple[KeptGroupKey, ...]) -> list[CborValue]:
    return [[key.key_id, key.created_at_ms, key.secret.reveal()] for key in keys]


def _key_from_cbor(key_id: CborValue, created_at_ms: CborValue, secret: CborValue) -> KeptGroupKey:
    return KeptGroupKey(
        key_id=field(key_id, str), created_at_ms=field(created_at_ms, int), secret=Secret(field(secret, bytes))
    )


MAX_FILE_BYTES: Final = 64 * 1024 * 1024


def group_keys_as_json(keys: Mapping[str, Sequence[KeptGroupKey]]) -> bytes:
    """The export of the keys, by stream, oldest key first."""
    document = {stream: {key.key_id: key.secret.reveal().hex() for key in each} for stream, each in keys.items()}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def read_group_keys_of(stream_id: str, path: Path) -> dict[str, GroupKey]:
    """The keys of one stream in an export, by their ids. Raises: ConfigError, OSError."""
    try:
        document = orjson.loads(read_private_file(path, max_bytes=MAX_FILE_BYTES))
        return {name: GroupKey(name, binascii.unhexlify(key)) for name, key in document.get(stream_id, {}).items()}
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"{path}: not a file of headgate keys export-group-keys") from None
