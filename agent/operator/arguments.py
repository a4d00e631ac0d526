"""Arguments that several commands share."""

import argparse
import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.config.configuration import Config, find_config, load_config

HELP = "configuration file (default: $HEADGATE_CONFIG, /etc/headgate/headgate.toml, or the user's own)"
MAX_COUNT_DIGITS = 18


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=HELP)


def add_passphrase_argument(
    parser: argparse.ArgumentParser, text: str = "read the passphrase from this private file (default: prompt)"
) -> None:
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help=text)


def add_new_passphrase_argument(parser: argparse.ArgumentParser) -> None:
    text = "protect the key file with a passphrase (prompts without --passphrase-file)"
    parser.add_argument("--with-passphrase", action="store_true", help=text)


def load_named_config(arguments: argparse.Namespace) -> Config:
    """Raises: ConfigError, OSError."""
    path = named_config(arguments)
    with explained_access(path):
        return load_config(path)


def named_config(arguments: argparse.Namespace) -> Path:
    found: Path = arguments.config or find_config(os.environ)
    return found


@contextmanager
def explained_access(path: Path) -> Iterator[None]:
    """Replaces the errors of a configuration that cannot be opened by ones that say what to do."""
    try:
        yield
    except FileNotFoundError:
        problem = "no configuration file; create one with 'headgate init', or give --config FILE"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from None
    except PermissionError:
        problem = "permission denied; use sudo, or add your user to the group that may read it"
        raise PermissionError(errno.EACCES, problem, str(path)) from None


def count(text: str) -> int:
    """Parse a number of things: 0 or more, in decimal digits."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_COUNT_DIGITS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a count")
    return int(text)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number above 0")
    return value
