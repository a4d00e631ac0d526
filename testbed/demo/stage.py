"""The processes of the demo: a node, a collector, agents, and devices on real serial ports; all stopped at the end.

north  weather stations on ptys, an encrypted stream ──┐
south  weather stations on ptys ───────────────────────┼── proxy ──► node ──► subscriber
micro  a microcontroller: its firmware, on this machine┘        ──► collector ──► Spark
"""

import asyncio
import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from agent.keys import DeviceKeys, create_key_file
from testbed.bench import AgentPart, CollectorServer, Microcontroller, NodeServer, SerialDevice
from testbed.cable import PtyPort
from testbed.demo.settings import DemoSettings, agent_configuration, firmware_table, node_configuration, weather_table
from testbed.errors import BenchError
from testbed.processes import HeadgateProcess, to_its_end
from testbed.tcp_proxy import TcpProxy

WEATHER_AGENTS: Final = ("north", "south")
ENCRYPTED: Final = "north"
MICRO: Final = "micro"
BOARD_RATE_HZ: Final = 5.0  # so that its little memory holds all of the time without its agent
POLL_S: Final = 0.1
PATIENCE_S: Final = 120.0


class Stage:
    """Everything below one folder. `close` ends all of it and leaves nothing."""

    def __init__(self, folder: Path, settings: DemoSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.agents: dict[str, AgentPart] = {}
        self.devices: list[SerialDevice] = []
        self.reader = DeviceKeys.generate(os.urandom)  # who may read the encrypted stream
        self.missing: list[str] = []  # what this machine cannot show, and why
        self.collector = CollectorServer(folder, "collector")
        self.node = NodeServer(folder, "node", settings=folder / "node.toml")
        self.network = TcpProxy(self.node.port)
        self._tasks: list[asyncio.Task[None]] = []
        self._board: Microcontroller | None = None
        self._subscriber: HeadgateProcess | None = None

    @property
    def stream(self) -> str:
        return f"{self.agents[ENCRYPTED].address}/{ENCRYPTED}/weather"

    async def set_up(self) -> None:
        """Keys, ports, configurations, servers; nothing reads yet."""
        create_key_file(self.folder / "reader" / "reader.keys", self.reader, None)
        await self.network.start()
        drivers = {name: self._weather_stations(name) for name in WEATHER_AGENTS}
        with contextlib.suppress(_Without):
            drivers[MICRO] = [await to_its_end(self._microcontroller)]
        for name, tables in drivers.items():
            self._add_agent(name, tables)
        addresses = {name: agent.address for name, agent in self.agents.items()}
        text = node_configuration(self.stream, addresses[ENCRYPTED], self._reader_address)
        (self.folder / "node.toml").write_text(text)
        await together(self.node.start, self.collector.start)

    async def start_agents(self) -> None:
        await together(*(agent.start for agent in self.agents.values()))
        self.speak()

    def speak(self) -> None:
        """Devices say what they measure."""
        self._tasks = [asyncio.create_task(device.run()) for device in self.devices]
        if self._board is not None:
            self._board.speak()

    def silence(self) -> None:
        """Devices say no more."""
        for task in self._tasks:
            task.cancel()
        if self._board is not None:
            self._board.silence()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._subscriber is not None:
            self._subscriber.close()
        await self.network.stop()
        with contextlib.suppress(ExceptionGroup):
            await together(*(agent.close for agent in self.agents.values()), self.node.close, self.collector.close)
        for device in self.devices:
            device.close()
        if self._board is not None:
            self._board.close()

    # Parts

    def _weather_stations(self, agent: str) -> list[str]:
        """Driver tables of every other device: they are dealt out in turns."""
        tables = []
        for number in range(WEATHER_AGENTS.index(agent), self.settings.devices, len(WEATHER_AGENTS)):
            name = f"station{number + 1}"
            port = PtyPort(self.folder / f"{name}.port")
            log = self.folder / f"{name}.produced"
            self.devices.append(SerialDevice(log, self.settings.rate_hz, port, _weather_line(number)))
            tables.append(weather_table(name, str(port.link)))
        return tables

    def _microcontroller(self) -> str:
        if shutil.which("cc") is None or shutil.which("make") is None:
            self.missing.append(
                "no microcontroller: its firmware is built by make and a C compiler (apt-get install gcc make)"
            )
            raise _Without
        try:
            self._board = Microcontroller(self.folder, "greenhouse", BOARD_RATE_HZ)
        except BenchError as error:
            self.missing.append(f"no microcontroller: {error}")
            raise _Without from None
        return firmware_table("board", str(self._board.link))

    def _add_agent(self, name: str, drivers: Iterable[str]) -> None:
        folder = self.folder / name
        folder.mkdir()
        agent = self.agents[name] = AgentPart(folder, None, None, {})
        self.collector.enrol(agent.keys.binding)
        reader = self._reader_address if name == ENCRYPTED else None
        agent.config.write_text(agent_configuration(name, agent, drivers, self.network.port, self.collector, reader))

    @property
    def _reader_address(self) -> str:
        return f"0x{self.reader.address.hex()}"

    # Looking

    def status(self, name: str) -> dict[str, Any]:
        return self.agents[name].status()

    def acknowledged(self) -> int:
        return sum(agent.figure("acknowledged") for agent in self.agents.values())

    def waiting(self) -> int:
        """Messages that are in a journal and not yet with the node."""
        return sum(
            agent.status().get("journal", {"waiting": {"node": 0}})["waiting"]["node"] for agent in self.agents.values()
        )

    def is_linked(self) -> bool:
        return all(agent.status()["links"]["node"]["is_up"] for agent in self.agents.values())

    def pages(self) -> dict[str, str]:
        """Where each agent shows its status page."""
        found = {name: agent.said(r"status page; url=(\S+)") for name, agent in self.agents.items()}
        return {name: url for name, url in found.items() if url is not None}

    async def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Raises: BenchError."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not is_true():  # noqa: ASYNC110 - other processes know no events of ours
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise BenchError(
                f"timed out after {PATIENCE_S:.0f} s waiting until {what}; the logs are in {self.folder}"
            ) from None

    async def subscribe(self, count: int) -> list[dict[str, Any]]:
        """The next messages of the encrypted stream, verified and decrypted by a subscriber that may read it."""
        key_file = str(self.folder / "reader" / "reader.keys")
        node = f"http://127.0.0.1:{self.network.port}"
        self._subscriber = HeadgateProcess(
            *("subscribe", self.stream, "--node", node, "--keys", key_file, "--count", str(count), "--json")
        )
        await asyncio.to_thread(self._subscriber.wait)
        lines = [json.loads(line) for line in self._subscriber.lines if line.startswith("{")]
        self._subscriber.close()
        return [line for line in lines if line["event"] == "message"]


class _Without(Exception):
    """A part is left out, and the stage is set without it."""


def _weather_line(number: int) -> Callable[[int], bytes]:
    """A day passes in a minute or so; each station stands somewhere else."""

    def line_of(count: int) -> bytes:
        angle = count / 300 + number
        temperature, humidity = 15 + 8 * math.sin(angle), 60 - 20 * math.sin(angle)
        return b'{"t": %.2f, "h": %.1f}\n' % (temperature, humidity)

    return line_of


async def together(*actions: Callable[[], None]) -> None:
    """At once, each in a thread. Raises an ExceptionGroup of what went wrong."""
    async with asyncio.TaskGroup() as group:
        for action in actions:
            group.create_task(to_its_end(action))
