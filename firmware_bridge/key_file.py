"""The pre-shared key of one device: 64 hex digits in a file that nobody else can read."""

import os
import stat
from pathlib import Path
from typing import Final

from firmware_bridge.errors import ConfigError
from protocol.link import KEY_BYTES

__all__ = ["read_link_key"]

MAX_FILE_BYTES: Final = 256
_ANYONE_ELSE: Final = 0o077


def read_link_key(path: Path) -> bytes:
    """Raises: ConfigError if others can read it or it holds no key, OSError if it cannot be read."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{path}: not a plain file")
        if mode & _ANYONE_ELSE:
            shown = f"{stat.S_IMODE(mode):04o}"
            raise ConfigError(f"{path}: others can read or change it (mode {shown}); chmod 600 it, and make a new key")
        digits = file.read(MAX_FILE_BYTES)
    try:
        key = bytes.fromhex(digits.decode("ascii").strip())
    except ValueError:  # its text would show the key
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{path}: {2 * KEY_BYTES} hex digits are wanted; 'openssl rand -hex {KEY_BYTES}' makes them")
    return key


def _open_without_waiting(path: str, flags: int) -> int:
    """For the far end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
