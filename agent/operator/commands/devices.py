"""`headgate devices`: lists attached devices; with `--identify`, also microcontrollers on ports that the agent uses."""

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from agent.errors import ExitCode
from agent.operator.arguments import add_config_argument
from agent.operator.firmware_devices import RunningAgent, named_agent
from agent.service.shared_link import open_shared_link
from drivers import attached
from drivers.firmware.port import Microcontroller, probe_ports
from protocol.errors import HeadgateError

DESCRIPTION = attached.DESCRIPTION
RESPONSE_S: Final = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    attached.add_arguments(parser)
    add_config_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    agent = named_agent(arguments) if arguments.identify else None

    def query(ports: Iterable[str], baudrate: int) -> dict[str, Microcontroller]:
        holders = {port: agent.holder_of(port) if agent is not None else None for port in ports}
        free = [port for port, driver in holders.items() if driver is None]
        held = {port: driver for port, driver in holders.items() if driver is not None}
        answers = asyncio.run(_query_agent(agent, held)) if agent is not None else {}
        return {**probe_ports(free, baudrate), **answers}

    attached.show(arguments, query)
    return ExitCode.OK


async def _query_agent(agent: RunningAgent, held: Mapping[str, str]) -> dict[str, Microcontroller]:
    """Query the devices on the agent's ports, in parallel."""
    answers = await asyncio.gather(*(_query_driver(agent, driver) for driver in held.values()))
    return {port: answer for port, answer in zip(held, answers, strict=True) if answer is not None}


async def _query_driver(agent: RunningAgent, driver: str) -> Microcontroller | None:
    """None if the agent does not share the link, or its device does not respond."""
    try:
        async with open_shared_link(agent.socket, driver) as link:
            return Microcontroller(hello=await link.opened(RESPONSE_S), read_by=driver)
    except HeadgateError:
        return None
