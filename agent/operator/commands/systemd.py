"""`headgate systemd`: generates the systemd drop-in from the configuration."""

import argparse
import sys
from pathlib import Path

from agent.errors import ExitCode
from agent.operator.arguments import add_config_argument, load_named_config
from agent.operator.unit_drop_in import DROP_IN_PATH, compose_drop_in
from runtime.durable_files import make_directory, replace_file

DESCRIPTION = (
    "Generate the systemd drop-in that gives the service access to the serial ports and paths of its"
    " configuration, and to nothing else. Without --write it is printed."
)
DROP_IN_MODE = 0o644


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=DROP_IN_PATH,
        metavar="FILE",
        help=f"write it to FILE (default: {DROP_IN_PATH}); then run systemctl daemon-reload and restart the service",
    )


def run(arguments: argparse.Namespace) -> int:
    text = compose_drop_in(load_named_config(arguments))
    if arguments.write is None:
        print(text, end="")
        return ExitCode.OK
    path: Path = arguments.write
    make_directory(path.parent)
    replace_file(path, text.encode(), mode=DROP_IN_MODE)
    print(f"{path}: written; next: systemctl daemon-reload && systemctl restart headgate", file=sys.stderr)
    return ExitCode.OK
