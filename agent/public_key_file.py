"""A public key in a small file: 64 hex digits and nothing else. Nothing in it is secret."""

from pathlib import Path

from agent.errors import ConfigError

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
        raise ConfigError(f"{path}: a public key has {2 * KEY_BYTES} hex digits, not {2 * len(key)}")
    return key
