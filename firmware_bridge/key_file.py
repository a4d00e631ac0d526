"""The pre-shared key of one device: 64 hex digits in a private file."""

from pathlib import Path
from typing import Final

from firmware_bridge.errors import ConfigError
from protocol.link import KEY_BYTES
from runtime.private_files import read_private_file

MAX_FILE_BYTES: Final = 256


def read_link_key(path: Path) -> bytes:
    """Raises: ConfigError if others can read it or it holds no key, OSError if it cannot be read."""
    digits = read_private_file(path, max_bytes=MAX_FILE_BYTES)
    try:
        key = bytes.fromhex(digits.decode("ascii").strip())
    except ValueError:  # its text would show the key
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{path}: {2 * KEY_BYTES} hex digits are expected; 'openssl rand -hex {KEY_BYTES}' makes them"
        )
    return key
