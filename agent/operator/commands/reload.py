"""`headgate reload`: makes the running agent load its configuration again."""

import argparse
import asyncio
import os
from pathlib import Path

from agent.config.configuration import find_config, load_config
from agent.errors import ConfigError, ExitCode, LinkDown
from agent.operator.arguments import add_config_argument
from agent.service.control import request_reload, usual_sockets

DESCRIPTION = (
    "Make the running agent load its configuration again, and wait until the new one is in use. Exit code 78:"
    " the agent rejected the new configuration, lists the problems and keeps the previous one. 'systemctl reload"
    " headgate' does the same."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.config or find_config(os.environ)).absolute()
    data_directory, problem = _data_directory(path)
    for socket in usual_sockets(path, data_directory, os.environ):
        try:
            asyncio.run(request_reload(socket, path))
        except (FileNotFoundError, ConnectionRefusedError):
            continue
        print(f"{path}: loaded and in use")
        return ExitCode.OK
    if problem is not None:
        raise problem
    raise LinkDown(f"no agent is running with {path}; start it: systemctl start headgate")


def _data_directory(path: Path) -> tuple[Path | None, ConfigError | None]:
    """A configuration with mistakes does not say where the agent is; under systemd it is found without."""
    try:
        return load_config(path).device.data_directory, None
    except ConfigError as problem:
        return None, problem
