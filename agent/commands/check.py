"""`headgate check`: everything that `run` would refuse, without opening a port or a socket."""

import argparse
import json

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.config import Config
from agent.errors import ConfigError, in_words
from agent.exit_codes import ExitCode
from agent.keys import binding_as_json, read_binding, read_key_file
from agent.page_config import OFF
from agent.public_key_file import read_public_key
from agent.service import key_file_of

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


def check_files(config: Config) -> None:
    """Raises: ConfigError with every file that cannot be used."""
    problems = []
    try:
        read_key_file(key_file_of(config))
    except PermissionError as error:
        problems.append(f"device.key_file: {in_words(error)}; only root and the agent's own user may read it")
    except (ConfigError, OSError) as error:
        problems.append(f"device.key_file: {in_words(error)}")
    keys = {
        "archive.seal_to": config.archive.seal_to if config.archive else None,
        "ship.collector_key": config.ship.collector_key if config.ship else None,
    }
    for name, path in keys.items():
        if path is not None:
            try:
                read_public_key(path)
            except ConfigError as error:
                problems.append(f"{name}: {error}")
    if config.page.listen != OFF and config.page.token_file is not None:
        from agent.page.access import read_token

        try:
            read_token(config.page.token_file)
        except ConfigError as error:
            problems.append(f"page.token_file: {error}")
    if problems:
        counted = f"{len(problems)} problem{'' if len(problems) == 1 else 's'} with files"
        raise ConfigError("\n  ".join([f"{config.path}: {counted}", *problems]))


def _counted(config: Config) -> str:
    return f"drivers {len(config.drivers)}, publishers {len(config.publishers)}, stream rules {len(config.streams)}"
