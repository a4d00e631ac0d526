"""`headgate devices`: lists attached devices; with `--ask`, also microcontrollers on ports that the agent uses."""

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from agent.errors import ConfigError, ExitCode
from agent.operator.commands.arguments import add_config_argument, load_named_config
from agent.operator.firmware_devices import RunningAgent, running_agent
from agent.service.shared_link import open_shared_link
from drivers import attached
from drivers.firmware.port import Microcontroller, probe_ports
from protocol.errors import HeadgateError

DESCRIPTION = attached.DESCRIPTION
ANSWER_S: Final = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    attached.add_arguments(parser)
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    agent = named_agent(arguments) if arguments.ask else None

    def ask(ports: Iterable[str], baudrate: int) -> dict[str, Microcontroller]:
        holders = {port: agent.holder_of(port) if agent is not None else None for port in ports}
        free = [port for port, driver in holders.items() if driver is None]
        held = {port: driver for port, driver in holders.items() if driver is not None}
        answers = asyncio.run(_ask_agent(agent, held)) if agent is not None else {}
        return {**probe_ports(free, baudrate), **answers}

    attached.show(arguments, ask)
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
    """Query the devices on the agent's ports, all at the same time."""
    answers = await asyncio.gather(*(_ask_driver(agent, driver) for driver in held.values()))
    return {port: answer for port, answer in zip(held, answers, strict=True) if answer is not None}


async def _ask_driver(agent: RunningAgent, driver: str) -> Microcontroller | None:
    """None if the agent does not lend, or its device does not answer: the port is shown as what it is."""
    try:
        async with open_shared_link(agent.socket, driver) as link:
            return Microcontroller(hello=await link.opened(ANSWER_S), read_by=driver)
    except HeadgateError:
        return None
