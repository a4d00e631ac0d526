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
from functools import partial
from pathlib import Path
from typing import Any, Final

from agent.keys import DeviceKeys, create_key_file
from protocol.errors import HeadgateError
from testbed.bench import AgentPart, CollectorServer, Microcontroller, NodeServer, SerialDevice
from testbed.bench.bench import wait_until
from testbed.cable import PtyPort
from testbed.demo.settings import DemoSettings, agent_configuration, firmware_table, node_configuration, weather_table
from testbed.errors import BenchError
from testbed.processes import HeadgateProcess, run_all, run_in_thread
from testbed.tcp_proxy import TcpProxy

WEATHER_AGENTS: Final = ("north", "south")
ENCRYPTED: Final = "north"
MICRO: Final = "micro"
BOARD_RATE_HZ: Final = 5.0  # so that its memory holds everything that it measures while its agent is down
POLL_S: Final = 0.1
SUBSCRIBER_ATTEMPTS: Final = 5


class Stage:
    """All processes and files of the demo, below one folder. `close` stops everything."""

    def __init__(self, folder: Path, settings: DemoSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.agents: dict[str, AgentPart] = {}
        self.devices: list[SerialDevice] = []
        self.reader = DeviceKeys.generate(os.urandom)  # may read the encrypted stream
        self._reader_address = f"0x{self.reader.address.hex()}"
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
        """Create keys, ports and configurations, and start the servers; no agent runs yet."""
        create_key_file(self.folder / "reader" / "reader.keys", self.reader, None)
        await self.network.start()
        drivers = {name: self._weather_stations(name) for name in WEATHER_AGENTS}
        if (table := await run_in_thread(self._microcontroller)) is not None:
            drivers[MICRO] = [table]
        for name, tables in drivers.items():
            self._add_agent(name, tables)
        addresses = {name: agent.address for name, agent in self.agents.items()}
        text = node_configuration(self.stream, addresses[ENCRYPTED], self._reader_address)
        (self.folder / "node.toml").write_text(text)
        await run_all([self.node.process.start, self.collector.process.start])

    async def start_agents(self) -> None:
        await run_all(agent.process.start for agent in self.agents.values())
        self.start_devices()

    def start_devices(self) -> None:
        """Let the devices send measurements."""
        self._tasks = [asyncio.create_task(device.run()) for device in self.devices]
        if self._board is not None:
            self._board.resume()

    def pause_devices(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._board is not None:
            self._board.pause()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._subscriber is not None:
            self._subscriber.close()
        await self.network.stop()
        servers = [self.node.process.close, self.collector.process.close]
        with contextlib.suppress(HeadgateError, OSError):
            await run_all([*(agent.close for agent in self.agents.values()), *servers])
        for device in self.devices:
            device.close()
        if self._board is not None:
            self._board.close()

    # Parts

    def _weather_stations(self, agent: str) -> list[str]:
        """Create the weather stations of one agent. Returns their driver tables."""
        tables = []
        for number in range(WEATHER_AGENTS.index(agent), self.settings.devices, len(WEATHER_AGENTS)):
            name = f"station{number + 1}"
            port = PtyPort(self.folder / f"{name}.port")
            log = self.folder / f"{name}.produced"
            self.devices.append(SerialDevice(log, self.settings.rate_hz, port, _weather_line(number)))
            tables.append(weather_table(name, str(port.link)))
        return tables

    def _microcontroller(self) -> str | None:
        """Start the microcontroller. Returns its driver table, or None if it cannot be built here."""
        if shutil.which("cc") is None or shutil.which("make") is None:
            self.missing.append(
                "no microcontroller: its firmware is built by make and a C compiler (apt-get install gcc make)"
            )
            return None
        try:
            self._board = Microcontroller(self.folder, "greenhouse", BOARD_RATE_HZ)
        except BenchError as error:
            self.missing.append(f"no microcontroller: {error}")
            return None
        return firmware_table("board", str(self._board.link))

    def _add_agent(self, name: str, drivers: Iterable[str]) -> None:
        folder = self.folder / name
        folder.mkdir()
        agent = self.agents[name] = AgentPart(folder, None, None, {})
        self.collector.enrol(agent.keys.binding)
        reader = self._reader_address if name == ENCRYPTED else None
        agent.config.write_text(agent_configuration(name, agent, drivers, self.network.port, self.collector, reader))

    # Inspecting

    def acknowledged(self) -> int:
        return sum(agent.figure("acknowledged") for agent in self.agents.values())

    def pending(self) -> int:
        """The number of readings in the journals that the node has not acknowledged yet."""
        return sum(
            agent.status().get("journal", {"pending": {"node": 0}})["pending"]["node"] for agent in self.agents.values()
        )

    def _progress(self) -> object:
        return self.acknowledged(), self.pending(), len(self.collector.archives())

    def is_linked(self) -> bool:
        return all(agent.status()["links"]["node"]["is_up"] for agent in self.agents.values())

    def pages(self) -> dict[str, str]:
        """The URLs of the status pages, by agent."""
        found = {name: agent.logged(r"status page; url=(\S+)") for name, agent in self.agents.items()}
        return {name: url for name, url in found.items() if url is not None}

    async def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Raises: BenchError if nothing changes for too long."""
        await wait_until(is_true, f"{what}; the logs are in {self.folder}", self._progress)

    async def subscribe(self, count: int) -> list[dict[str, Any]]:
        """The next readings of the encrypted stream, verified and decrypted by a subscriber that may read it.

        A subscriber that ends early, as when a busy node does not respond in time, is started again. Messages that
        arrive before their key are not counted. Raises: BenchError.
        """
        key_file = str(self.folder / "reader" / "reader.keys")
        node = f"http://127.0.0.1:{self.network.port}"
        for _ in range(SUBSCRIBER_ATTEMPTS):
            process = HeadgateProcess("subscribe", self.stream, "--node", node, "--keys", key_file, "--json")
            self._subscriber = process
            await self.wait_until(partial(_has_enough_or_ended, process, count), f"{count} readings are decrypted")
            await run_in_thread(process.close)
            if len(messages := _decrypted(process)) >= count:
                return messages[:count]
        raise BenchError(f"the subscriber ended {SUBSCRIBER_ATTEMPTS} times; its last lines: {process.lines[-5:]}")


def _decrypted(subscriber: HeadgateProcess) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in subscriber.lines if line.startswith("{")]
    return [event for event in events if event["event"] == "reading"]


def _has_enough_or_ended(subscriber: HeadgateProcess, count: int) -> bool:
    return len(_decrypted(subscriber)) >= count or not subscriber.is_running


def _weather_line(number: int) -> Callable[[int], bytes]:
    """Lines of a simulated day that takes about a minute, different for each station."""

    def line_of(count: int) -> bytes:
        angle = count / 300 + number
        temperature, humidity = 15 + 8 * math.sin(angle), 60 - 20 * math.sin(angle)
        return b'{"t": %.2f, "h": %.1f}\n' % (temperature, humidity)

    return line_of
