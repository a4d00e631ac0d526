"""`headgate systemd`: what the service may do, made of its configuration."""

import argparse
import sys
from pathlib import Path

from agent.atomic_files import replace_file
from agent.commands.config_argument import add_config_argument, load_named_config
from agent.exit_codes import ExitCode
from agent.unit_drop_in import DROP_IN_PATH, compose_drop_in

DESCRIPTION = (
    "Make the drop-in that lets the service use the ports and paths of its configuration, and nothing else. Without"
    " --write it is printed."
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
        help=f"write it (default: {DROP_IN_PATH}); afterwards: systemctl daemon-reload, and restart the service",
    )


def run(arguments: argparse.Namespace) -> int:
    text = compose_drop_in(load_named_config(arguments))
    if arguments.write is None:
        print(text, end="")
        return ExitCode.OK
    path: Path = arguments.write
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode(), mode=DROP_IN_MODE)
    print(f"{path}: written; now: systemctl daemon-reload && systemctl restart headgate", file=sys.stderr)
    return ExitCode.OK
