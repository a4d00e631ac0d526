"""Files and folders that no one else may read, and a refusal to use them when someone could."""

import os
import stat
from pathlib import Path

from agent.errors import ConfigError

PRIVATE_FOLDER = 0o700
_ANYONE_ELSE = 0o077


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """Raises: ConfigError if others could read it or it is no plain file, OSError if it cannot be read."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        _check_privacy(path, os.fstat(file.fileno()))
        return file.read(max_bytes + 1)


def _open_without_waiting(path: str, flags: int) -> int:
    """For the far end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_credential(path: Path, *, max_bytes: int) -> bytes:
    """A file that the service manager put into $CREDENTIALS_DIRECTORY.

    The manager may grant the service access by an access list, which shows as the group's read bit, so only the rest
    of the world is looked at; the folder is the manager's own affair.
    """
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & 0o007:
            raise ConfigError(f"{path}: others can read it (mode {stat.S_IMODE(mode):04o})")
        return file.read(max_bytes + 1)


def make_private_folder(folder: Path) -> None:
    """Make it if it is missing. Raises: ConfigError if it is there and others may enter it."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    check_private_folder(folder)


def check_private_folder(folder: Path) -> None:
    """Raises: ConfigError if others may enter it, OSError if it is not there."""
    mode = folder.stat().st_mode
    if mode & _ANYONE_ELSE:
        raise ConfigError(f"{folder}: others can enter it (mode {stat.S_IMODE(mode):04o}); chmod 700 it")


def _check_privacy(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: not a plain file")
    if status.st_mode & _ANYONE_ELSE:
        raise ConfigError(
            f"{path}: others can read or change it (mode {stat.S_IMODE(status.st_mode):04o});"
            " chmod 600 it, and if it was exposed, make new keys"
        )
    if os.geteuid() != 0 and status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: belongs to user {status.st_uid}, not to {os.geteuid()} or root")
