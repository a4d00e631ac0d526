"""The collector's two keys: one signs receipts, the other decrypts archives.

    keys/signing.key    Ed25519, private; only the collector needs it
    keys/decryption.key X25519, private; only the ingest needs it, and it may be moved to where that runs
    keys/public.json    both public keys, for the configuration of devices; the collector reads the encryption key here

A private file is `HGCKEY` and the version (2 bytes), the kind of key (one byte, `S` or `X`), 32 bytes of key, and the
SHA-256 of all before it, so that damage is distinguished from a wrong key. Files that others can read are refused.
"""

import hashlib
import json
import stat
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from nacl.public import PrivateKey
from nacl.signing import SigningKey

from ingest.collector.errors import ConfigError
from runtime.durable_files import PRIVATE_DIRECTORY, create_file, make_directory
from runtime.private_files import read_private_file

SIGNING_KEY = "signing.key"
DECRYPTION_KEY = "decryption.key"
PUBLIC_KEYS = "public.json"
KEY_BYTES = 32
MAX_PUBLIC_FILE_BYTES = 4096

_PREAMBLE = b"HGCKEY" + (1).to_bytes(2, "big")
_CHECKSUM_BYTES = 32
_FILE_BYTES = len(_PREAMBLE) + 1 + KEY_BYTES + _CHECKSUM_BYTES
_ANYONE_ELSE = 0o077
_PUBLIC_FILE = 0o644


class KeyKind(IntEnum):
    SIGNING = ord("S")
    DECRYPTION = ord("X")


class PublicKeys(NamedTuple):
    """The public keys of a collector, which its devices need."""

    signing: bytes  # Ed25519; receipts are checked with it
    encryption: bytes  # X25519; archives are encrypted for it


def create_keys(folder: Path, random_bytes: Callable[[int], bytes]) -> PublicKeys:
    """Create new keys in `folder`. Raises: ConfigError if a key exists: receipts signed so far depend on it."""
    make_directory(folder, mode=PRIVATE_DIRECTORY)
    _check_folder(folder)
    if any((folder / name).exists() for name in (SIGNING_KEY, DECRYPTION_KEY, PUBLIC_KEYS)):
        raise ConfigError(f"{folder}: keys exist already, and were not changed")
    signing, decryption = SigningKey(random_bytes(KEY_BYTES)), PrivateKey(random_bytes(KEY_BYTES))
    public = PublicKeys(bytes(signing.verify_key), bytes(decryption.public_key))
    create_file(folder / DECRYPTION_KEY, _encode(KeyKind.DECRYPTION, bytes(decryption)))
    create_file(folder / SIGNING_KEY, _encode(KeyKind.SIGNING, bytes(signing)))
    create_file(folder / PUBLIC_KEYS, json.dumps(public_as_dict(public), indent=2).encode() + b"\n", mode=_PUBLIC_FILE)
    return public


def load_signing_key(path: Path) -> SigningKey:
    """Raises: ConfigError for a file that others can read, or that is damaged or no signing key."""
    return SigningKey(_read(path, KeyKind.SIGNING))


def load_decryption_key(path: Path) -> PrivateKey:
    """The key that decrypts archives. Raises: ConfigError, as above."""
    return PrivateKey(_read(path, KeyKind.DECRYPTION))


def load_public_keys(folder: Path) -> PublicKeys:
    path = folder / PUBLIC_KEYS
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_PUBLIC_FILE_BYTES))
        public = PublicKeys(bytes.fromhex(found["signing_key"]), bytes.fromhex(found["encryption_key"]))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there are no keys yet; create them with 'headgate collector keys init'") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: not a file of public keys; restore it from your copy") from None
    if {len(public.signing), len(public.encryption)} != {KEY_BYTES}:
        raise ConfigError(f"{path}: a key is not {KEY_BYTES} bytes long; restore it from your copy")
    return public


def public_as_dict(public: PublicKeys) -> dict[str, str]:
    return {"signing_key": public.signing.hex(), "encryption_key": public.encryption.hex()}


def _encode(kind: KeyKind, secret: bytes) -> bytes:
    body = _PREAMBLE + bytes([kind]) + secret
    return body + hashlib.sha256(body).digest()


def _read(path: Path, kind: KeyKind) -> bytes:
    data = read_private_file(path, max_bytes=_FILE_BYTES)
    _check_folder(path.parent)
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if len(data) != _FILE_BYTES or hashlib.sha256(body).digest() != checksum or not body.startswith(_PREAMBLE):
        raise ConfigError(f"{path}: damaged, or not a key of a collector; restore it from your copy")
    if body[len(_PREAMBLE)] != kind:
        raise ConfigError(f"{path}: not a {kind.name.lower()} key; were two files mixed up?")
    return body[-KEY_BYTES:]


def _check_folder(folder: Path) -> None:
    mode = folder.stat().st_mode
    if mode & _ANYONE_ELSE:
        raise ConfigError(f"{folder}: other users can enter it (mode {stat.S_IMODE(mode):04o}); run chmod 700")
