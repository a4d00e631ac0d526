"""Reads a TOML file: a plain table, or one problem that names the file and the cause."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from runtime.errors import ConfigError

MAX_TOML_BYTES: Final = 1 << 20
INTEGER_RANGE: Final = range(-(2**63), 2**63)  # of TOML; larger integers may be too long to print
MAX_SHOWN_KEY: Final = 64  # characters
_BARE_KEY: Final = re.compile("[A-Za-z0-9_-]+")


def read_toml(path: Path) -> tuple[dict[str, Any], bytes]:
    """The table, and the bytes it was read from. Raises: ConfigError; OSError if the file cannot be read."""
    with path.open("rb") as file:
        data = file.read(MAX_TOML_BYTES + 1)
    if len(data) > MAX_TOML_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_TOML_BYTES} bytes")
    try:
        return parse_toml(data), data
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def parse_toml(data: bytes) -> dict[str, Any]:
    """Raises ValueError, with the problem and its place."""
    try:
        table = tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("lists or tables are nested too deeply") from None
    _refuse_large_integers(table)
    return table


def _refuse_large_integers(table: dict[str, Any]) -> None:
    """Raises ValueError. Hexadecimal numbers are unlimited in Python, but later uses (sleep, print, float) are not."""
    pending: list[tuple[str, Any]] = [("", table)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [(dotted(path, key), each) for key, each in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", each) for index, each in enumerate(value)]
        elif isinstance(value, int) and value not in INTEGER_RANGE:
            raise ValueError(f"{path}: the number does not fit 64 bits")


def dotted(path: str, key: str) -> str:
    """The dotted path of a key below another, as in TOML: on one line and printable, whatever the key is."""
    shown = key if _BARE_KEY.fullmatch(key) else _quoted(key)
    shown = shown if len(shown) <= MAX_SHOWN_KEY else f"{shown[:MAX_SHOWN_KEY]}…"
    return f"{path}.{shown}" if path else shown


def _quoted(key: str) -> str:
    import json

    return json.dumps(key)
