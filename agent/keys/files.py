"""Files of keys and secrets: private files and folders that no other user may read, and public key files."""

import os
import stat
from pathlib import Path

from agent.errors import ConfigError
from runtime.durable_files import PRIVATE_DIRECTORY, make_directory

_ANYONE_ELSE = 0o077


def read_credential(path: Path, *, max_bytes: int) -> bytes:
    """Read a file that the service manager put into $CREDENTIALS_DIRECTORY.

    The manager may grant the service access by an access list, which shows as the group's read bit, so only the rest
    of the world is checked, and not the folder.
    """
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & 0o007:
            raise ConfigError(f"{path}: readable by other users (mode {stat.S_IMODE(mode):04o})")
        return file.read(max_bytes + 1)


def make_private_folder(folder: Path) -> None:
    """Create it if it is missing. Raises: ConfigError if it exists and others may enter it."""
    make_directory(folder, mode=PRIVATE_DIRECTORY)
    check_private_folder(folder)


def check_private_folder(folder: Path) -> None:
    """Raises: ConfigError if others may enter it, OSError if it is not there."""
    mode = folder.stat().st_mode
    if mode & _ANYONE_ELSE:
        raise ConfigError(
            f"{folder}: accessible to other users (mode {stat.S_IMODE(mode):04o}); run chmod 700 {folder}"
        )


MAX_FILE_BYTES = 1024
KEY_BYTES = 32


def read_public_key(path: Path) -> bytes:
    """Raises: ConfigError if there is no such file or no such key in it."""
    try:
        with path.open("rb") as file:
            key = bytes.fromhex(file.read(MAX_FILE_BYTES).decode().strip())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"{path}: not a public key of {2 * KEY_BYTES} hex digits") from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path}: a public key must have {2 * KEY_BYTES} hex digits, not {2 * len(key)}")
    return key
