"""The `headgate` command: a plain table of subcommand → module, imported on use.

A command module offers `DESCRIPTION`, `add_arguments(parser)` and `run(arguments) -> int`. Results go to stdout,
messages to stderr, and the result is an `ExitCode`. Nothing heavy is imported before a command is chosen.
"""

import argparse
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from agent.errors import ConfigError, ExitCode, error_text
from agent.version import VERSION
from protocol.errors import HeadgateError


class Command(NamedTuple):
    module: str
    summary: str
    is_service: bool = False  # runs until SIGTERM, which is no failure, however early it comes


class CommandModule(Protocol):
    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


PACKAGE = "agent.operator.commands"
COMMAND_GROUPS = {
    "set up a device": {
        "init": Command(f"{PACKAGE}.init", "create the configuration and the keys of a new device"),
        "check": Command(f"{PACKAGE}.check", "validate the configuration and the files it names"),
        "keys": Command(f"{PACKAGE}.keys", "create, show, protect, import and export the device's keys"),
        "backup": Command(f"{PACKAGE}.backup", "save the keys and the configuration to one encrypted file"),
        "restore": Command(f"{PACKAGE}.restore", "install the keys and the configuration from a backup"),
        "devices": Command(f"{PACKAGE}.devices", "list attached devices and the settings to read them"),
        "drivers": Command(f"{PACKAGE}.drivers", "list the drivers and their settings"),
        "probe": Command("drivers.probe", "read a few values from one device and print them"),
        "systemd": Command(f"{PACKAGE}.systemd", "generate the systemd drop-in (device access) from the configuration"),
    },
    "run and monitor the agent": {
        "run": Command(f"{PACKAGE}.run", "run the agent: read, store, publish and archive", is_service=True),
        "reload": Command(f"{PACKAGE}.reload", "make the running agent load its configuration again"),
        "status": Command(f"{PACKAGE}.status", "show the state of the agent, once"),
        "top": Command(f"{PACKAGE}.top", "show the state of the agent, live"),
        "tap": Command(f"{PACKAGE}.tap", "print messages as the agent on this machine commits them"),
        "doctor": Command(f"{PACKAGE}.doctor", "diagnose problems and suggest what to do"),
        "capacity": Command(f"{PACKAGE}.capacity", "forecast how long an outage the journal (the buffer) can hold"),
        "rejected": Command(f"{PACKAGE}.rejected", "list input that drivers could not parse"),
        "rekey": Command(f"{PACKAGE}.rekey", "rotate the keys of encrypted streams now"),
        "firmware": Command(f"{PACKAGE}.firmware", "sign firmware for microcontrollers and update them"),
    },
    "inspect stored data": {
        "message": Command(f"{PACKAGE}.message", "encode, decode, verify and convert messages"),
        "journal": Command(f"{PACKAGE}.journal", "inspect, verify, repair or export a journal"),
        "archive": Command(f"{PACKAGE}.archive", "list, verify or export archive files"),
    },
    "network and central services": {
        "node": Command("node.cli", "run a Streamr-compatible node or tracker"),
        "subscribe": Command(f"{PACKAGE}.subscribe", "read a stream from a node: verified, in order, decrypted"),
        "collector": Command(
            "ingest.collector.cli", "receive archives from devices, and manage which devices may upload"
        ),
        "ingest": Command("ingest.cli", "load archives into tables, report on them, query them"),
    },
    "try it out": {
        "demo": Command("testbed.demo.cli", "run the whole system on this machine, with faults, in two minutes"),
        "testbed": Command("testbed.cli", "run fault scenarios on this machine and verify what arrived"),
    },
}
COMMANDS = {name: command for group in COMMAND_GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. No input, however wrong, ends in a traceback."""
    _prepare_output()
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except HeadgateError as error:
        return _print_error(str(error), error.exit_code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.IO_ERROR
    except OSError as error:
        return _print_error(error_text(error), _os_exit_code(error))
    except Exception:  # noqa: BLE001 - anything else that escapes is a bug, and has its own exit code
        import traceback

        traceback.print_exc()
        return ExitCode.BUG


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        return _run_without_command(argv)
    name, *rest = argv
    if COMMANDS[name].is_service:
        signal.signal(signal.SIGTERM, _exit_before_start)  # until the service has its own handler
    module = cast("CommandModule", _imported(COMMANDS[name].module))
    parser = argparse.ArgumentParser(
        prog=f"headgate {name}",
        description=module.DESCRIPTION,
        formatter_class=_ServiceHelp if COMMANDS[name].is_service else argparse.HelpFormatter,
    )
    parser.register("action", "parsers", _Actions)
    module.add_arguments(parser)
    exit_code = module.run(parser.parse_args(rest))
    sys.stdout.flush()
    return exit_code


class _ServiceHelp(argparse.HelpFormatter):
    """Of a fixed width: to ask the terminal, `argparse` imports `shutil`, half a megabyte with what it needs."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


class _Actions(argparse._SubParsersAction):  # type: ignore[type-arg]  # generic for the type checker only
    """The actions of a command. The description of each is its summary in the list of actions."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        summary: str = settings["help"]
        parser: argparse.ArgumentParser = super().add_parser(name, **settings)
        parser.description = f"{summary[0].upper()}{summary[1:]}."
        parser.register("action", "parsers", _Actions)
        return parser


def _exit_before_start(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(ExitCode.OK)


def _imported(name: str) -> object:
    """Import a module with the garbage collector off: imports create objects that live as long as the process.

    Raises: ConfigError if this installation lacks a package that the command needs.
    """
    gc.disable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        extra = package if package in ("node", "ingest") else "node,ingest"
        raise ConfigError(
            f"the Python package {error.name} is not installed; pip install 'headgate[{extra}]'"
        ) from error
    finally:
        gc.freeze()
        gc.enable()


def _run_without_command(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="headgate",
        description="Edge gateway: signed sensor messages, from the device to the data lake.",
        epilog=_command_table(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="headgate [--help] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"headgate {VERSION}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    command = parser.parse_known_args(argv)[0].command
    if command is None:
        parser.error("no command given; 'headgate --help' lists the commands")
    import difflib

    close = difflib.get_close_matches(command, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "'headgate --help' lists the commands"
    parser.error(f"unknown command {command!r}; {hint}")


def _command_table() -> str:
    lines: list[str] = []
    for title, group in COMMAND_GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<12}{command.summary}" for name, command in group.items()), ""]
    return "\n".join(
        [*lines, "'headgate COMMAND --help' describes a command. To begin: 'headgate demo', then 'headgate init'."]
    )


def _print_error(problem: str, exit_code: int) -> int:
    print(f"headgate: {problem}", file=sys.stderr)
    return exit_code


def _os_exit_code(error: OSError) -> ExitCode:
    match error:
        case FileNotFoundError():
            return ExitCode.NO_INPUT
        case PermissionError():
            return ExitCode.NO_PERMISSION
        case _:
            return ExitCode.IO_ERROR


def _prepare_output() -> None:
    """Open stdout and stderr where the parent process closed them, and escape what stdout cannot encode."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - for as long as the process lives
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter prints no error at exit about a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
