"""What the commands of this room share."""

import secrets
from random import Random

from node.config import parse_listen
from node.errors import ConfigError

__all__ = ["new_chance", "read_listen"]


def read_listen(option: str, text: str) -> tuple[str, int]:
    """Raises: `ConfigError`, which names the option."""
    try:
        return parse_listen(text)
    except ValueError as problem:
        raise ConfigError(f"{option}: {problem}") from None


def new_chance() -> Random:
    """Chance for delays and for whom to link with whom. Nothing secret hangs on it."""
    return Random(secrets.randbits(64))  # noqa: S311
