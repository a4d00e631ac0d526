"""Connects commands to microcontrollers: directly by a link that survives resets, or through the agent."""

import argparse
import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.config.configuration import Config
from agent.errors import ConfigError
from agent.operator.arguments import load_named_config
from agent.service.shared_link import SharedLink, open_shared_link
from agent.service.status import is_process, read_status
from drivers.byte_source import ByteSource, open_serial, open_tcp
from drivers.errors import DeviceError
from drivers.ports import KnownPort, serial_ports
from firmware_bridge import DeviceLink, HostSession, ReopeningPort, read_link_key
from protocol.errors import HeadgateError
from protocol.link import Feature, UpdateQuery, UpdateReason, UpdateState, UpdateStatus

RESPONSE_S: Final = 5.0
_HELD: Final = (errno.EBUSY, errno.EAGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    baudrate: int
    key_file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The device at a port; all but `port` and `problem` are empty if there is a problem."""

    port: str
    device: str = ""
    firmware: str = ""
    state: UpdateState | None = None  # None: it does not support updates
    has_reverted: bool = False  # its last update did not start and was rolled back
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAgent:
    """The ports that an agent holds, and the socket through which it shares them."""

    socket: Path
    held: Mapping[str, str]  # port → name of the driver that has it open

    def holder_of(self, port: str) -> str | None:
        """The driver that holds the port, by any of the port's names; None if no driver does."""
        known = KnownPort(port)
        with contextlib.suppress(DeviceError):
            port = port if known.is_tcp else os.path.realpath(known.find())
        return next((driver for held, driver in self.held.items() if port in (held, os.path.realpath(held))), None)


def running_agent(config: Config) -> RunningAgent | None:
    """The running agent, as described by its status file; None if it is not running."""
    try:
        status = read_status(config.status_file)
        if not is_process(status["pid"]):
            return None
        identities = {name: device.get("identity", {}) for name, device in status["devices"].items()}
        held = {identity["port"]: name for name, identity in identities.items() if "port" in identity}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return None  # no status, or one of another version
    return RunningAgent(socket=config.links_socket, held=held)


def named_agent(arguments: argparse.Namespace) -> RunningAgent | None:
    """The agent of the configuration, if it runs. Raises: ConfigError, OSError if --config names a file."""
    try:
        return running_agent(load_named_config(arguments))
    except (ConfigError, OSError):
        if arguments.config is not None:
            raise
        return None


async def list_devices(ports: Sequence[str] | None, line: LineSettings, agent: RunningAgent | None) -> list[Found]:
    """The devices at these ports, or at all serial ports and those of the agent, queried in parallel."""
    all_ports = dict.fromkeys([*(agent.held if agent else ()), *(info.device for info in serial_ports())])
    return await asyncio.gather(*(_query(port, line, agent) for port in (all_ports if ports is None else ports)))


async def _query(port: str, line: LineSettings, agent: RunningAgent | None) -> Found:
    try:
        async with open_link(port, line, agent) as link:
            hello = await link.opened(RESPONSE_S)
            is_updatable = Feature.FIRMWARE_UPDATE in hello.features
            status = await link.ask(UpdateQuery(), RESPONSE_S) if is_updatable else None
    except HeadgateError as error:
        return Found(port=port, problem=f"{port}: {error}" if port not in str(error) else str(error))
    if not isinstance(status, UpdateStatus):
        return Found(port=port, device=hello.device_id, firmware=hello.firmware)
    has_reverted = status.reason is UpdateReason.REVERTED
    return Found(
        port=port, device=hello.device_id, firmware=hello.firmware, state=status.state, has_reverted=has_reverted
    )


@contextlib.asynccontextmanager
async def open_link(
    port: str, line: LineSettings, agent: RunningAgent | None
) -> AsyncIterator[DeviceLink | SharedLink]:
    """A link through the agent if it holds the port, else directly. Raises: DeviceError, ConfigError, OSError."""
    driver = agent.holder_of(port) if agent is not None else None
    if agent is None or driver is None:
        async with open_directly(port, line) as link:
            yield link
    else:
        async with open_shared_link(agent.socket, driver) as link:
            yield link


@contextlib.asynccontextmanager
async def open_directly(port: str, line: LineSettings) -> AsyncIterator[DeviceLink]:
    """A session with the device that continues when the port is lost and comes back.

    Readings of the device are not acknowledged meanwhile, so it retains them.
    Raises: DeviceError if the port does not open at first, ConfigError, OSError.
    """
    known = KnownPort(port)
    key = None if line.key_file is None else read_link_key(line.key_file)
    session = HostSession(baudrate=line.baudrate, key=key)
    opened = await _open_first(known, line)
    link = DeviceLink(ReopeningPort(opened, lambda: _open(known, line)), session)
    try:
        async with link.pumping():
            yield link
    finally:
        link.close()


async def _open_first(known: KnownPort, line: LineSettings) -> ByteSource:
    try:
        return await _open(known, line)
    except DeviceError as error:
        if getattr(error.__cause__, "errno", None) not in _HELD:
            raise
        raise DeviceError(
            f"{known.configured} is in use by another program; if that is an agent, give its configuration with"
            " --config, or stop it (systemctl stop headgate) and start it again afterwards"
        ) from error


async def _open(known: KnownPort, line: LineSettings) -> ByteSource:
    if known.is_tcp:
        return await open_tcp(*known.host_and_port)
    source = open_serial(known.find(), baudrate=line.baudrate)
    known.learn()
    return source
