"""`headgate firmware call`: executes a command on a device, also while the agent reads it."""

import argparse
import asyncio
import json

from agent.errors import ExitCode
from agent.operator.firmware_devices import LineSettings, RunningAgent, reached
from protocol.link import CommandDescription, CommandResult, CommandStatus, CommandValue

_REFUSALS = {
    CommandStatus.UNKNOWN: "unknown command",
    CommandStatus.BAD_ARGUMENT: "invalid argument",
    CommandStatus.FAILED: "the device failed to execute it",
}


def add_call_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command", nargs="?", metavar="COMMAND", help="command to execute (default: list the device's commands)"
    )
    parser.add_argument("argument", nargs="?", metavar="ARGUMENT", help="argument of the command: an integer or text")


def call(arguments: argparse.Namespace, line: LineSettings, agent: RunningAgent | None) -> ExitCode:
    """Execute a command at most once; if the outcome is unknown, the error says so. Raises: LinkDown, DeviceError."""
    if arguments.command is None:
        _show_commands(asyncio.run(_commands(arguments.port, line, agent)), as_json=arguments.json)
        return ExitCode.OK
    result = asyncio.run(_call(arguments, line, agent))
    _show_result(result, as_json=arguments.json)
    return ExitCode.OK if result.status is CommandStatus.DONE else ExitCode.NO


async def _call(arguments: argparse.Namespace, line: LineSettings, agent: RunningAgent | None) -> CommandResult:
    async with reached(arguments.port, line, agent) as link:
        await link.opened()
        return await link.call(arguments.command, _value_of(arguments.argument))


async def _commands(port: str, line: LineSettings, agent: RunningAgent | None) -> list[CommandDescription]:
    async with reached(port, line, agent) as link:
        return list(await link.commands())


def _value_of(text: str | None) -> CommandValue:
    try:
        return None if text is None else int(text)
    except ValueError:
        return text


def _show_commands(commands: list[CommandDescription], *, as_json: bool) -> None:
    for each in commands:
        row = {"command": each.name, "argument": each.argument}
        print(json.dumps(row) if as_json else f"{each.name:<16}{each.argument}".rstrip())


def _show_result(result: CommandResult, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"status": result.status.name.lower(), "value": result.value}))
        return
    answer = "" if result.value is None else f"  {result.value}"
    print(f"{_REFUSALS.get(result.status, 'done')}{answer}")
