"""The bench: all parts of a scenario on one machine, every part a real process, every link through a proxy.

    devices ──► agents ──┬── links ──► nodes, brokers
                         └── links ──► collectors

`async with Bench(…)` starts everything, in the order in which parts need each other, and ends it whatever happens.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

from protocol.devicelog.checkpoint import Checkpoint
from testbed.bench.agents import AgentPart, configuration
from testbed.bench.clock import ControlledClock
from testbed.bench.devices import CountingDevice, Microcontroller, MqttDevice, RealPortDevice, SerialDevice
from testbed.bench.removed import Removed
from testbed.bench.servers import BrokerServer, CollectorServer, ExternalServer, NodeServer, Server, TrackerServer
from testbed.bench.volume import Volume, open_volume
from testbed.cable.port import PtyPort
from testbed.errors import BenchError
from testbed.processes import run_all, run_in_thread
from testbed.scenario import Device, Scenario
from testbed.tcp_proxy import TcpProxy

DAY_S: Final = 86_400
POLL_S: Final = 0.05
PATIENCE_S: Final = 120.0  # without any progress
CALM_S: Final = 1.0  # without a new message: everything that the devices sent has been read
STOP_ATTEMPTS: Final = 5
FIRST_PATIENCE_S: Final = 8.0  # then agents are restarted, so that none waits for the end of a long backoff


class Bench:
    """The running parts of a scenario, by name. `notes` lists what this machine cannot do as the scenario requires."""

    def __init__(self, scenario: Scenario, folder: Path, agent_environment: Mapping[str, str] | None = None) -> None:
        """`agent_environment` is added to the environment of every agent."""
        self.scenario = scenario
        self.folder = folder
        self.notes: list[str] = []
        self._agent_environment = dict(agent_environment or {})
        self.servers: dict[str, Server] = {}
        self.agents: dict[str, AgentPart] = {}
        self.devices: dict[str, CountingDevice] = {}
        self.boards: dict[str, Microcontroller] = {}
        self.links: dict[str, TcpProxy] = {}
        self.locks: dict[str, asyncio.Lock] = {}  # one fault of a part at a time
        self.removed = Removed(folder / "removed")
        self._device_tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            await self._start_servers()
            await self._prepare_agents()
            copies = self.scenario.copies  # start later
            await run_all(agent.process.start for name, agent in self.agents.items() if name not in copies)
            await self._start_devices()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process, whatever its state."""
        for task in self._device_tasks:
            task.cancel()
        for link in self.links.values():
            await link.stop()
        for device in self.devices.values():
            device.close()
        for board in self.boards.values():
            board.close()
        await run_all(agent.close for agent in self.agents.values())
        await run_all(server.process.close for server in self.servers.values())

    def lock(self, part: str) -> asyncio.Lock:
        return self.locks.setdefault(part, asyncio.Lock())

    def collector(self, name: str) -> CollectorServer:
        server = self.servers[f"collectors.{name}"]
        assert isinstance(server, CollectorServer)
        return server

    def collector_of(self, agent: str) -> CollectorServer:
        return self.collector(self.scenario.agents[agent].collector)

    @property
    def committed(self) -> int:
        """The number of readings that the journals of all agents have committed so far."""
        return sum(sum(agent.positions().values()) for agent in self.agents.values())

    def figure(self, part: str, name: str) -> int:
        """A number that a fault may wait for."""
        section, own = part.split(".")
        match section:
            case "agents":
                return self.agents[own].figure(name)
            case "devices":
                return self.devices[own].produced
            case _:
                return len(self.collector(own).archives())

    # Starting

    async def _start_servers(self) -> None:
        scenario = self.scenario
        trackers = {name: TrackerServer(self._place("trackers"), name) for name in scenario.trackers}
        self._add("trackers", trackers)
        await run_all(tracker.process.start for tracker in trackers.values())
        nodes: dict[str, Server] = {
            name: ExternalServer(node.address)
            if node.address
            else NodeServer(self._place("nodes"), name, trackers.get(node.tracker or ""))
            for name, node in scenario.nodes.items()
        }
        brokers: dict[str, Server] = {
            name: ExternalServer(broker.address) if broker.address else BrokerServer(self._place("brokers"), name)
            for name, broker in scenario.brokers.items()
        }
        collectors = {name: CollectorServer(self._place("collectors"), name) for name in scenario.collectors}
        for section, servers in (("nodes", nodes), ("brokers", brokers), ("collectors", collectors)):
            self._add(section, servers)
        await run_all(server.process.start for servers in (nodes, brokers, collectors) for server in servers.values())

    def _place(self, section: str) -> Path:
        """A directory for each kind, because parts of different kinds may have the same name."""
        place = self.folder / section
        place.mkdir(exist_ok=True)
        return place

    def _add(self, section: str, servers: Mapping[str, Server]) -> None:
        self.servers.update({f"{section}.{name}": server for name, server in servers.items()})

    async def _prepare_agents(self) -> None:
        originals = self.scenario.copies
        for name, agent in sorted(self.scenario.agents.items(), key=lambda each: each[0] in originals):
            folder = self._place("agents") / name
            folder.mkdir()
            clock = self._make_clock(name, folder)
            part = self.agents[name] = AgentPart(
                folder,
                self._make_volume(folder, agent.disk_megabytes),
                clock,
                self._agent_environment,
                self.agents[originals[name]] if name in originals else None,
            )
            collector = self.collector(agent.collector)
            collector.enrol(part.keys.binding)
            ports = await self._link_up(name)
            devices = self.scenario.devices_of(name)
            serial_ports = {each: await self._make_port(each, device) for each, device in devices.items()}
            text = configuration(agent, part, devices, ports, collector.key_file, serial_ports)
            part.config.write_text(text, encoding="utf-8")

    def _make_volume(self, folder: Path, megabytes: int | None) -> Volume | None:
        if megabytes is None:
            return None
        try:
            return open_volume(folder, megabytes)
        except BenchError as error:
            self.notes.append(
                f"{folder.name} has no disk of its own: {error}; a power cut is a kill, and the disk does not fill"
            )
            return None

    def _make_clock(self, name: str, folder: Path) -> ControlledClock | None:
        if name not in self.scenario.agents_with_clocks:
            return None
        agent, clock = self.scenario.agents[name], ControlledClock(folder)
        if agent.clock == "1970":
            clock.start_in_1970()
        clock.step(-agent.clock_behind_days * DAY_S)
        return clock

    async def _link_up(self, name: str) -> dict[str, int]:
        """Start a proxy to each destination of the agent. Returns their ports, by the kind of destination."""
        agent = self.scenario.agents[name]
        of_devices = [device.broker for device in self.scenario.devices_of(name).values() if device.broker]
        brokers = {broker for broker in (agent.broker, *of_devices) if broker}
        if len(brokers) > 1:
            raise BenchError(f"agents.{name}: an agent has one broker, not {', '.join(sorted(brokers))}")
        ends = {"node": f"nodes.{agent.node}", "collector": f"collectors.{agent.collector}"}
        if brokers:
            ends["broker"] = f"brokers.{brokers.pop()}"
        ports = {}
        for end, server_name in ends.items():
            if (server := self.servers.get(server_name)) is not None:
                link = self.links[f"links.{name}.{end}"] = TcpProxy(server.port, server.host)
                await link.start()
                ports[end] = link.port
        return ports

    async def _make_port(self, name: str, device: Device) -> str:
        """The serial port through which the agent reads a device; empty for MQTT."""
        if device.kind == "mqtt":
            return ""
        if device.kind == "microcontroller":
            board = await run_in_thread(partial(Microcontroller, self._place("devices"), name, device.rate_hz))
            self.boards[name] = board
            return str(board.link)
        log = self._place("devices") / f"{name}.produced"
        if device.port is None:
            port = PtyPort(self._place("devices") / f"{name}.port")
            self.devices[name] = SerialDevice(log, device.rate_hz, port)
            return str(port.link)
        if device.write_to is not None:
            self.devices[name] = RealPortDevice(log, device.rate_hz, device.write_to)
        return device.port

    async def _start_devices(self) -> None:
        await self._wait_for_subscriptions()
        for name, device in self._mqtt_devices():
            broker = self.servers[f"brokers.{device.broker}"]
            log = self._place("devices") / f"{name}.produced"
            self.devices[name] = MqttDevice(name, log, device.rate_hz, broker.host, broker.port)
        self._device_tasks = [asyncio.create_task(device.run()) for device in self.devices.values()]

    def _mqtt_devices(self) -> list[tuple[str, Device]]:
        return [(name, device) for name, device in self.scenario.devices.items() if device.kind == "mqtt"]

    async def _wait_for_subscriptions(self) -> None:
        for name, device in self._mqtt_devices():
            part = self.agents[device.agent]
            await wait_until(partial(part.is_device_up, name), f"{name} is subscribed to")

    # Stopping

    async def settle(self) -> None:
        """Stop the devices, wait until the agents have shipped everything, and stop the agents. Raises: BenchError."""
        for task in self._device_tasks:
            task.cancel()
        for board in self.boards.values():
            board.pause()
        await self._wait_for_subscriptions()  # after a cut link, acknowledged messages wait in a broker
        await self._read_all()
        try:
            await self._ship_all(FIRST_PATIENCE_S)
        except BenchError:
            await run_all(agent.process.stop for agent in self.agents.values())
            await run_all(agent.process.start for agent in self.agents.values())
            await self._ship_all(PATIENCE_S)
        await asyncio.gather(*map(self.stop_agent, self.agents))

    async def stop_agent(self, name: str) -> None:
        """Stop an agent in order, again if the collector does not have its last checkpoint. Raises: BenchError."""
        agent, collector = self.agents[name], self.collector_of(name)
        for _ in range(STOP_ATTEMPTS):
            await run_in_thread(agent.process.stop)
            if agent.positions() in map(_committed, collector.checkpoints(agent.keys.address)):
                return
            await run_in_thread(agent.process.start)
        raise BenchError(f"agents.{name}: the collector has no checkpoint of what its journal holds")

    async def _read_all(self) -> None:
        """Wait until no message has been read for `CALM_S`."""
        before, since_s = -1, 0.0
        while since_s < CALM_S:
            now = sum(agent.figure("readings") for agent in self.agents.values())
            since_s = since_s + POLL_S if now == before else 0.0
            before = now
            await asyncio.sleep(POLL_S)

    async def _ship_all(self, patience_s: float) -> None:
        for agent in self.agents.values():
            agent.expect_fresh_status()
        for name, agent in self.agents.items():
            await wait_until(agent.is_settled, f"agents.{name} has shipped all", agent.left_to_ship, patience_s)
        for name in self.agents:
            await wait_until(partial(self._is_log_known, name), f"agents.{name} has left a forked log", lambda: None)

    def _is_log_known(self, agent: str) -> bool:
        """Whether the collector knows the log that the agent uses now, and found no fork in it."""
        known = {log.log for log in self.collector_of(agent).logs() if not log.is_forked}
        return self.agents[agent].log in known


def _committed(checkpoint: Checkpoint) -> dict[int, int]:
    return {lane.lane: lane.committed for lane in checkpoint.lanes}


async def wait_until(
    is_true: Callable[[], bool],
    what: str,
    progress: Callable[[], object] = lambda: None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Poll `is_true`, for as long as `progress` changes at least every `patience_s`. Raises: BenchError."""
    loop = asyncio.get_running_loop()
    before, since_s = progress(), loop.time()
    while not is_true():
        await asyncio.sleep(POLL_S)
        if (now := progress()) != before:
            before, since_s = now, loop.time()
        elif loop.time() - since_s > patience_s:
            raise BenchError(f"no progress for {patience_s:.0f} s while waiting until {what}; at {before}")
