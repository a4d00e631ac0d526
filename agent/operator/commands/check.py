"""`headgate check`: validates the configuration and its files without opening a port or a socket."""

import argparse
import json
import sys
from pathlib import Path

from agent.config.configuration import Config, load_valid_sections
from agent.config.files import check_files, key_file_of
from agent.config.review import warnings_of
from agent.errors import ConfigError, ExitCode, error_text
from agent.keys import binding_as_json, read_binding
from agent.operator.arguments import add_config_argument, explained_access, named_config
from agent.operator.service_user import judged_user, service_access_problems
from runtime.private_files import judging_for_group

DESCRIPTION = (
    "Validate the configuration and the files it names, and list all problems. Opens no port and no socket. Run"
    " by root, it also reports files that the service's user cannot read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--user", metavar="NAME", help="check that this user can read the files (default: the service's user)"
    )
    parser.add_argument(
        "--settings", action="store_true", help="print the reference of all settings as Markdown and exit"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.settings:
        from agent.config.reference import render_settings

        print(render_settings(), end="")
        return ExitCode.OK
    path = named_config(arguments)
    try:
        config = _checked(path, arguments.user)
    except (ConfigError, OSError) as error:
        if arguments.json:
            problems = error.problems if isinstance(error, ConfigError) else [error_text(error)]
            print(json.dumps({"configuration": str(path), "problems": problems}))
        raise
    device = binding_as_json(read_binding(key_file_of(config)))["device"]
    warnings = warnings_of(config)
    if arguments.json:
        found = {"configuration": str(path), "device": device, "cursors": config.cursors, "warnings": warnings}
        print(json.dumps({**found, "problems": []}))
        return ExitCode.OK
    for warning in warnings:
        print(f"headgate: warning: {warning}", file=sys.stderr)
    print(f"{path}: OK; {_counted(config)}; device {device}")
    return ExitCode.OK


def _checked(path: Path, user_name: str | None) -> Config:
    """Raises: ConfigError with the problems of the settings, and of the files that the valid ones name; OSError."""
    with explained_access(path):
        config, problems = load_valid_sections(path)
    if config is None:
        raise ConfigError(*problems, file=path)
    user = judged_user(path, user_name)
    with judging_for_group(None if user is None else user.gid):
        check_files(config, also=[*problems, *service_access_problems(config, user)])
    return config


def _counted(config: Config) -> str:
    return f"drivers {len(config.drivers)}, publishers {len(config.publishers)}, stream rules {len(config.streams)}"
