"""Arguments that several commands share."""

import argparse
import errno
import os
from pathlib import Path

from agent.config.configuration import Config, find_config, load_config

HELP = "configuration file (default: $HEADGATE_CONFIG, /etc/headgate/headgate.toml, or the user's own)"


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=HELP)


def load_named_config(arguments: argparse.Namespace) -> Config:
    """Raises: ConfigError, OSError."""
    path = arguments.config or find_config(os.environ)
    try:
        return load_config(path)
    except FileNotFoundError:
        problem = "no configuration file; create one with 'headgate init', or give --config FILE"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from None
    except PermissionError:
        problem = "permission denied; use sudo, or add your user to the group that may read it"
        raise PermissionError(errno.EACCES, problem, str(path)) from None
