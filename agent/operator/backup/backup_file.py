"""The format of the backup file.

A file envelope `HGBKUP` holds one CBOR map: `salt`, `opslimit`, `memlimit`, and `box`. The checksum of the envelope
distinguishes damage from a wrong passphrase. `box` is a libsodium secret box (nonce first) under the Argon2id hash of
the passphrase. In it is a CBOR map:

| name | what |
|---|---|
| `device` | the device's address, 20 bytes |
| `made_at_ms`, `headgate` | the time of the backup, and the version of Headgate that made it |
| `data_directory` | absolute path |
| `configuration` | the configuration file |
| `key_file`, `key_path` | the key file, and its path: `data/…` or `configuration/…`, ending in `.keys` |
| `group_keys` | map of file name to file, in `keys/groups` |
| `named_files` | map of path to file: the files in the configuration's folder that the configuration names |
| `ceiling_ms` | no timestamp above it was issued; null if the device has no ceiling file |

`Backup` validates every path, so that no file can be restored outside its folder.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from agent.errors import ConfigError
from agent.keys.key_file import (
    DEFAULT_COST,
    NONCE_BYTES,
    SALT_BYTES,
    PassphraseCost,
    decode_key_file,
    is_acceptable_cost,
    passphrase_box,
)
from agent.keys.secret import Secret
from protocol import strict_cbor
from protocol.errors import Corrupt
from protocol.file_envelope import FileEnvelope
from protocol.strict_cbor import CborBounds, CborValue, field

ADDRESS_BYTES: Final = 20
MAX_BACKUP_BYTES: Final = 16 << 20
ENVELOPE: Final = FileEnvelope(name="backup", magic=b"HGBKUP", version=1, max_bytes=MAX_BACKUP_BYTES)
MAX_FILES: Final = 1024
MAX_PATH_PARTS: Final = 8
MAX_PATH_CHARACTERS: Final = 1024

_OUTER_BOUNDS: Final = CborBounds(max_bytes=MAX_BACKUP_BYTES, max_items=16, max_depth=1)
_INNER_BOUNDS: Final = CborBounds(max_bytes=MAX_BACKUP_BYTES, max_items=4 * MAX_FILES, max_depth=2)
_OUTER: Final = ("salt", "opslimit", "memlimit", "box")
_PART: Final = re.compile(r"[^\x00-\x1f/\x7f]{1,255}")
_GROUP_KEYS: Final = re.compile(r"[0-9a-f]{32}\.group-keys")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Backup:
    """The content of a backup. Raises ValueError if a path leaves its folder or the keys are of another device."""

    device: bytes
    made_at_ms: int
    headgate: str
    data_directory: str
    configuration: bytes
    key_file: Secret
    key_path: str
    group_keys: Mapping[str, bytes]
    named_files: Mapping[str, Secret]
    ceiling_ms: int | None

    def __post_init__(self) -> None:
        if self.made_at_ms < 0 or (self.ceiling_ms is not None and self.ceiling_ms < 0):
            raise ValueError("a time is negative")
        folder = PurePosixPath(self.data_directory)
        if not folder.is_absolute() or not all(_is_part(part) for part in folder.parts[1:]):
            raise ValueError("the data directory is not an absolute path")
        if len(self.group_keys) + len(self.named_files) > MAX_FILES:
            raise ValueError(f"more than {MAX_FILES} files")
        place, _, rest = self.key_path.partition("/")
        if place not in ("data", "configuration") or not _is_path_within(rest) or not rest.endswith(".keys"):
            raise ValueError("the path of the key file is not within its folder")
        if not all(map(_GROUP_KEYS.fullmatch, self.group_keys)):
            raise ValueError("a group key file has an invalid name")
        if not all(map(_is_path_within, self.named_files)):
            raise ValueError("the path of a file is not within the configuration's folder")
        if decode_key_file(self.key_file.reveal()).public.address != self.device:
            raise ValueError("the key file is of another device")


def _is_path_within(path: str) -> bool:
    parts = path.split("/")
    return len(path) <= MAX_PATH_CHARACTERS and len(parts) <= MAX_PATH_PARTS and all(map(_is_part, parts))


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and _PART.fullmatch(part) is not None


def encode_backup(
    backup: Backup, passphrase: Secret, random_bytes: Callable[[int], bytes], cost: PassphraseCost = DEFAULT_COST
) -> bytes:
    """Raises: ConfigError if it is larger than a backup may be."""
    plain = Secret(strict_cbor.encode(_to_cbor(backup)))
    if len(plain) > MAX_BACKUP_BYTES - 4096:
        raise ConfigError(f"the files to back up have {len(plain)} bytes, more than {MAX_BACKUP_BYTES - 4096}")
    salt = random_bytes(SALT_BYTES)
    box = passphrase_box(passphrase, salt, cost).encrypt(plain.reveal(), random_bytes(NONCE_BYTES))
    return ENVELOPE.wrap(strict_cbor.encode(dict(zip(_OUTER, (salt, *cost, bytes(box)), strict=True))))


def decode_backup(data: bytes, passphrase: Callable[[], Secret]) -> Backup:
    """Decrypt and decode a backup. `passphrase` is only called for an undamaged file.

    Raises: WireError for a file that is damaged, foreign or of another version; ConfigError for a wrong passphrase.
    """
    from nacl.exceptions import CryptoError

    with strict_cbor.invalid_is_corrupt("backup"):
        found = strict_cbor.fields(strict_cbor.decode(ENVELOPE.unwrap(data), _OUTER_BOUNDS), *_OUTER)
        cost = PassphraseCost(field(found["opslimit"], int), field(found["memlimit"], int))
        salt, box = field(found["salt"], bytes), field(found["box"], bytes)
        if len(salt) != SALT_BYTES or not is_acceptable_cost(cost):
            raise Corrupt("salt or cost of the passphrase hash out of bounds")
    try:
        plain = Secret(passphrase_box(passphrase(), salt, cost).decrypt(box))
    except CryptoError:
        raise ConfigError("wrong passphrase") from None
    return decode_content(plain)


def decode_content(plain: Secret) -> Backup:
    """Decode the decrypted content of the box. Raises: WireError."""
    with strict_cbor.invalid_is_corrupt("content of the backup"):
        return _from_cbor(strict_cbor.decode(plain.reveal(), _INNER_BOUNDS))


def _to_cbor(backup: Backup) -> CborValue:
    return {
        "device": backup.device,
        "made_at_ms": backup.made_at_ms,
        "headgate": backup.headgate,
        "data_directory": backup.data_directory,
        "configuration": backup.configuration,
        "key_file": backup.key_file.reveal(),
        "key_path": backup.key_path,
        "group_keys": dict(backup.group_keys),
        "named_files": {name: content.reveal() for name, content in backup.named_files.items()},
        "ceiling_ms": backup.ceiling_ms,
    }


def _from_cbor(value: CborValue) -> Backup:
    """Raises: WireError, ValueError."""
    found = strict_cbor.fields(value, *Backup.__dataclass_fields__)
    ceiling_ms = found["ceiling_ms"]
    return Backup(
        device=field(found["device"], bytes),
        made_at_ms=field(found["made_at_ms"], int),
        headgate=field(found["headgate"], str),
        data_directory=field(found["data_directory"], str),
        configuration=field(found["configuration"], bytes),
        key_file=Secret(field(found["key_file"], bytes)),
        key_path=field(found["key_path"], str),
        group_keys=_files(found["group_keys"]),
        named_files={name: Secret(content) for name, content in _files(found["named_files"]).items()},
        ceiling_ms=None if ceiling_ms is None else field(ceiling_ms, int),
    )


def _files(value: CborValue) -> dict[str, bytes]:
    return {name: field(content, bytes) for name, content in field(value, dict).items()}
