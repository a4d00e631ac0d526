"""`headgate check`: everything that `run` would refuse, without opening a port or a socket."""

import argparse
import json

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.config import Config
from agent.config_files import check_files, key_file_of
from agent.exit_codes import ExitCode
from agent.keys import binding_as_json, read_binding

DESCRIPTION = "Check the configuration and the key files it names. All problems at once; nothing is opened."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument("--settings", action="store_true", help="print what can be set, as Markdown, and end")


def run(arguments: argparse.Namespace) -> int:
    if arguments.settings:
        from agent.settings_reference import render_settings

        print(render_settings(), end="")
        return ExitCode.OK
    config = load_named_config(arguments)
    check_files(config)
    device = binding_as_json(read_binding(key_file_of(config)))["device"]
    if arguments.json:
        print(json.dumps({"configuration": str(config.path), "device": device, "cursors": config.cursors}))
    else:
        print(f"{config.path}: good; {_counted(config)}; device {device}")
    return ExitCode.OK


def _counted(config: Config) -> str:
    return f"drivers {len(config.drivers)}, publishers {len(config.publishers)}, stream rules {len(config.streams)}"
