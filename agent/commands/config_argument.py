"""`--config`, the same for every command that has it."""

import argparse
import errno
import os
from pathlib import Path

from agent.config import Config, find_config, load_config

HELP = "the configuration (default: $HEADGATE_CONFIG, /etc/headgate/headgate.toml, or the user's own)"


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=HELP)


def load_named_config(arguments: argparse.Namespace) -> Config:
    """Raises: ConfigError, OSError."""
    path = arguments.config or find_config(os.environ)
    try:
        return load_config(path)
    except FileNotFoundError:
        problem = "there is no configuration; 'headgate init' writes one, '--config FILE' names another"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from None
    except PermissionError:
        problem = "permission denied; use sudo, or join the group that may read it"
        raise PermissionError(errno.EACCES, problem, str(path)) from None
