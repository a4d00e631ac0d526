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

from agent.errors import ConfigError, in_words
from agent.exit_codes import ExitCode
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
    "set a device up": {
        "init": Command("agent.commands.init", "write a configuration and keys for a new device"),
        "check": Command("agent.commands.check", "check the configuration, and open nothing"),
        "keys": Command("agent.commands.keys", "make, show, protect and carry over the keys that are this device"),
        "devices": Command("agent.commands.devices", "list what is attached, with the settings to read it"),
        "probe": Command("drivers.probe", "read a few values from one device and show them"),
        "systemd": Command("agent.commands.systemd", "make what the service may touch of the configuration"),
    },
    "run it and watch it": {
        "run": Command("agent.commands.run", "run the agent", is_service=True),
        "status": Command("agent.commands.status", "how the agent is doing, on one screen"),
        "top": Command("agent.commands.top", "watch how the agent is doing, live"),
        "tap": Command("agent.commands.tap", "show messages as they pass through the agent on this machine"),
        "doctor": Command("agent.commands.doctor", "find what is wrong around the agent, and say what to do"),
        "capacity": Command(
            "agent.commands.capacity", "how long the journal holds, and how large it must be for an outage"
        ),
        "rekey": Command("agent.commands.rekey", "change the keys of encrypted streams at once"),
        "firmware": Command("agent.commands.firmware", "sign firmware for microcontrollers, and update them"),
    },
    "look at what was kept": {
        "message": Command("agent.commands.message", "make, show, verify and convert messages"),
        "journal": Command("agent.commands.journal", "look into a journal, check it, mend it, take records out of it"),
        "archive": Command("agent.commands.archive", "list, verify and read archive files"),
    },
    "the network and the centre": {
        "node": Command("node.cli", "run a local network that stock Streamr clients accept"),
        "subscribe": Command("agent.commands.subscribe", "read a stream from a node: verified, in order, decrypted"),
        "collector": Command("ingest.collector.cli", "take archives in, and say which devices may bring them"),
        "ingest": Command("ingest.cli", "make tables of collected archives, report on them, and query them"),
    },
    "the whole picture": {
        "demo": Command("testbed.demo.cli", "show it on this machine, broken and settled, in two minutes"),
        "testbed": Command("testbed.cli", "run it here, break it as scenarios say, and judge what arrived"),
    },
}
COMMANDS = {name: command for group in COMMAND_GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code. No input, however wrong, ends in a traceback."""
    _prepare_output()
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except HeadgateError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.IO_ERROR
    except OSError as error:
        return _complain(in_words(error), _os_exit_code(error))
    except Exception:  # noqa: BLE001 - whatever else escapes is a bug, and says so by its exit code
        import traceback

        traceback.print_exc()
        return ExitCode.BUG


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        return _answer_without_command(argv)
    name, *rest = argv
    if COMMANDS[name].is_service:
        signal.signal(signal.SIGTERM, _end_before_the_beginning)  # until the service listens itself
    module = cast("CommandModule", _imported(COMMANDS[name].module))
    parser = argparse.ArgumentParser(prog=f"headgate {name}", description=module.DESCRIPTION)
    parser.register("action", "parsers", _Actions)
    module.add_arguments(parser)
    exit_code = module.run(parser.parse_args(rest))
    sys.stdout.flush()
    return exit_code


class _Actions(argparse._SubParsersAction):  # type: ignore[type-arg]  # generic for the type checker only
    """The actions of a command. The help of each begins with what the list of them says of it."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        summary: str = settings["help"]
        parser: argparse.ArgumentParser = super().add_parser(name, **settings)
        parser.description = f"{summary[0].upper()}{summary[1:]}."
        parser.register("action", "parsers", _Actions)
        return parser


def _end_before_the_beginning(_number: int, _frame: object) -> NoReturn:
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
        raise ConfigError(f"{error.name} is missing; pip install 'headgate[{extra}]'") from error
    finally:
        gc.freeze()
        gc.enable()


def _answer_without_command(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="headgate",
        description="Edge gateway agent: signed sensor messages, from the device to the lake.",
        epilog=_command_table(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="headgate [--help] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"headgate {VERSION}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of the commands below")
    command = parser.parse_known_args(argv)[0].command
    if command is None:
        parser.error("a command is missing; 'headgate --help' lists them")
    import difflib

    close = difflib.get_close_matches(command, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "'headgate --help' lists the commands"
    parser.error(f"unknown command {command!r}; {hint}")


def _command_table() -> str:
    lines: list[str] = []
    for title, group in COMMAND_GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<12}{command.summary}" for name, command in group.items()), ""]
    return "\n".join(
        [*lines, "'headgate COMMAND --help' tells more of each. New here: headgate demo, then headgate init."]
    )


def _complain(problem: str, exit_code: int) -> int:
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
    """Somewhere to write where whoever started us left nothing open, and a way to write whatever a name holds."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - for as long as the process lives
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Keep the interpreter from complaining, on its way out, of the reader that went away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
