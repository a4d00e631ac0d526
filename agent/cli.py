"""The `headgate` command: a plain table of subcommand → module, imported on use.

A command module offers `DESCRIPTION`, `add_arguments(parser)` and `run(arguments) -> int`. Results go to stdout,
messages to stderr, and the answer is an `ExitCode`. Nothing heavy is imported before a command is chosen.
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
    is_service: bool = False  # runs until it is told to stop, and being told so is no failure, however early it comes


class CommandModule(Protocol):
    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


COMMAND_GROUPS = {
    "set up a device": {
        "init": Command("agent.operator.commands.init", "create the configuration and the keys of a new device"),
        "check": Command("agent.operator.commands.check", "validate the configuration and the files it names"),
        "keys": Command("agent.operator.commands.keys", "create, show, protect, import and export the device's keys"),
        "backup": Command(
            "agent.operator.commands.backup", "save the keys and the configuration to one encrypted file"
        ),
        "restore": Command("agent.operator.commands.restore", "install the keys and the configuration from a backup"),
        "devices": Command("agent.operator.commands.devices", "list attached devices and the settings to read them"),
        "drivers": Command("agent.operator.commands.drivers", "list the drivers and their settings"),
        "probe": Command("drivers.probe", "read a few values from one device and print them"),
        "systemd": Command(
            "agent.operator.commands.systemd", "generate the systemd drop-in (device access) from the configuration"
        ),
    },
    "run and monitor the agent": {
        "run": Command(
            "agent.operator.commands.run", "run the agent: read, store, publish and archive", is_service=True
        ),
        "reload": Command("agent.operator.commands.reload", "make the running agent load its configuration again"),
        "status": Command("agent.operator.commands.status", "show the state of the agent, once"),
        "top": Command("agent.operator.commands.top", "show the state of the agent, live"),
        "tap": Command("agent.operator.commands.tap", "print messages as the agent on this machine commits them"),
        "doctor": Command("agent.operator.commands.doctor", "diagnose problems and suggest what to do"),
        "capacity": Command(
            "agent.operator.commands.capacity", "forecast how long an outage the journal (the buffer) can hold"
        ),
        "rejected": Command("agent.operator.commands.rejected", "list input that drivers could not parse"),
        "rekey": Command("agent.operator.commands.rekey", "rotate the keys of encrypted streams now"),
        "firmware": Command("agent.operator.commands.firmware", "sign firmware for microcontrollers and update them"),
    },
    "inspect stored data": {
        "message": Command("agent.operator.commands.message", "encode, decode, verify and convert messages"),
        "journal": Command("agent.operator.commands.journal", "inspect, verify, repair or export a journal"),
        "archive": Command("agent.operator.commands.archive", "list, verify or export archive files"),
    },
    "network and central services": {
        "node": Command("node.cli", "run a Streamr-compatible node or tracker"),
        "subscribe": Command(
            "agent.operator.commands.subscribe", "read a stream from a node: verified, in order, decrypted"
        ),
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
    """Run one command line and give its exit code. No input, however wrong, ends in a traceback."""
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
    except Exception:  # noqa: BLE001 - whatever else escapes is a bug, and says so by its exit code
        import traceback

        traceback.print_exc()
        return ExitCode.BUG


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        return _answer_without_command(argv)
    name, *rest = argv
    if COMMANDS[name].is_service:
        signal.signal(signal.SIGTERM, _exit_before_start)  # until the service listens itself
    module = cast("CommandModule", _imported(COMMANDS[name].module))
    parser = argparse.ArgumentParser(prog=f"headgate {name}", description=module.DESCRIPTION)
    parser.register("action", "parsers", _Actions)
    module.add_arguments(parser)
    exit_code = module.run(parser.parse_args(rest))
    sys.stdout.flush()
    return exit_code


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
    """Imports make many objects that live for ever: looking for garbage among them would cost more than it finds.

    Raises: ConfigError where this installation lacks what the command needs.
    """
    gc.disable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        room = name.partition(".")[0]
        extra = room if room in ("node", "ingest") else "node,ingest"
        raise ConfigError(
            f"the Python package {error.name} is not installed; pip install 'headgate[{extra}]'"
        ) from error
    finally:
        gc.freeze()
        gc.enable()


def _answer_without_command(argv: list[str]) -> int:
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
    """Keep the interpreter from complaining, on its way out, of the reader that went away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
