"""Reads and writes the key file; an existing file is never overwritten by accident."""

import errno
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent.errors import ConfigError
from agent.keys.device_keys import DeviceKeys
from agent.keys.files import (
    check_private_folder,
    make_private_folder,
    read_credential,
)
from agent.keys.key_file import (
    DEFAULT_COST,
    MAX_KEY_FILE_BYTES,
    KeyFile,
    PassphraseCost,
    decode_key_file,
    encode_key_file,
)
from agent.keys.machine import adopt_keys
from agent.keys.passphrase import find_credential
from agent.keys.secret import Secret
from protocol.binding import Binding
from protocol.errors import WireError
from runtime.durable_files import create_file, replace_file
from runtime.private_files import read_private_file

DEFAULT_KEY_FILE = Path("/var/lib/headgate/keys/device.keys")
KEYS_VARIABLE = "HEADGATE_KEYS"
KEYS_CREDENTIAL = "headgate.keys"


def find_key_file(environment: Mapping[str, str], usual: Path = DEFAULT_KEY_FILE) -> Path:
    """The key file: a systemd credential, else $HEADGATE_KEYS, else the default path."""
    credential = find_credential(environment, KEYS_CREDENTIAL)
    return credential or Path(environment.get(KEYS_VARIABLE) or usual)


def read_key_file(path: Path) -> KeyFile:
    """Raises: ConfigError for a file that others can read, or that is damaged, foreign or of a later version; OSError.

    A file that cannot be used is never a reason to make new keys: that would be another device.
    """
    with _damage_reported(path):
        return decode_key_file(_read(path))


def read_binding(path: Path) -> Binding:
    """The verified public part of the key file. Raises: ConfigError."""
    with _damage_reported(path):
        return read_key_file(path).binding


def _read(path: Path) -> bytes:
    if path.name == KEYS_CREDENTIAL:
        return read_credential(path, max_bytes=MAX_KEY_FILE_BYTES)
    try:
        check_private_folder(path.parent)
        return read_private_file(path, max_bytes=MAX_KEY_FILE_BYTES)
    except FileNotFoundError:
        problem = f"no keys; restore a backup, or create a new device: headgate keys init --keys {path}"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from None


def load_keys(path: Path, passphrase: Callable[[], Secret]) -> DeviceKeys:
    """`passphrase` is only called for a file that has one. Raises: ConfigError."""
    key_file = read_key_file(path)
    with _damage_reported(path):
        return key_file.unlock(passphrase() if key_file.has_passphrase else None)


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    try:
        yield
    except WireError as error:
        raise ConfigError(f"{path}: {error}; restore it from a backup") from None


def create_key_file(
    path: Path, keys: DeviceKeys, passphrase: Secret | None, *, cost: PassphraseCost = DEFAULT_COST
) -> None:
    """Raises: ConfigError if there is a file already, whatever is in it."""
    make_private_folder(path.parent)
    content = encode_key_file(keys, passphrase, secrets.token_bytes, cost)
    if not path.exists():
        adopt_keys(path)
    try:
        create_file(path, content.reveal())
    except FileExistsError:
        raise ConfigError(f"{path}: already exists and was not changed") from None


def replace_key_file(
    path: Path, keys: DeviceKeys, passphrase: Secret | None, *, cost: PassphraseCost = DEFAULT_COST
) -> None:
    """The same keys under another passphrase. Raises: ConfigError rather than put another identity in its place."""
    if read_binding(path) != keys.binding:
        raise ConfigError(f"{path}: contains the keys of another device and was not changed")
    replace_file(path, encode_key_file(keys, passphrase, secrets.token_bytes, cost).reveal())
