"""`headgate devices`: what is attached; with `--ask`, microcontrollers behind the agent's own ports, too."""

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.errors import ConfigError
from agent.exit_codes import ExitCode
from agent.firmware_devices import RunningAgent, running_agent
from agent.lent_link import borrowed
from drivers import cli
from drivers.firmware.ask import Microcontroller, ask_ports
from protocol.errors import HeadgateError

DESCRIPTION = cli.DESCRIPTION
ANSWER_S: Final = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli.add_arguments(parser)
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    agent = named_agent(arguments) if arguments.ask else None

    def ask(ports: Iterable[str], baudrate: int) -> dict[str, Microcontroller]:
        holders = {port: agent.holder_of(port) if agent is not None else None for port in ports}
        free = [port for port, driver in holders.items() if driver is None]
        held = {port: driver for port, driver in holders.items() if driver is not None}
        answers = asyncio.run(_ask_agent(agent, held)) if agent is not None else {}
        return {**ask_ports(free, baudrate), **answers}

    cli.show(arguments, ask)
    return ExitCode.OK


def named_agent(arguments: argparse.Namespace) -> RunningAgent | None:
    """The one of the configuration, if it runs. Raises: ConfigError, OSError where a configuration is named."""
    try:
        return running_agent(load_named_config(arguments))
    except (ConfigError, OSError):
        if arguments.config is not None:
            raise
        return None


async def _ask_agent(agent: RunningAgent, held: Mapping[str, str]) -> dict[str, Microcontroller]:
    """What the devices said of themselves to the drivers that read them, by port. All are asked at once."""
    answers = await asyncio.gather(*(_ask_driver(agent, driver) for driver in held.values()))
    return {port: answer for port, answer in zip(held, answers, strict=True) if answer is not None}


async def _ask_driver(agent: RunningAgent, driver: str) -> Microcontroller | None:
    """None if the agent does not lend, or its device does not answer: the port is shown as what it is."""
    try:
        async with borrowed(agent.socket, driver) as link:
            return Microcontroller(hello=await link.opened(ANSWER_S), read_by=driver)
    except HeadgateError:
        return None
