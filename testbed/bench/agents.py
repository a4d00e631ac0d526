"""One agent of a bench, with its disk, its clock and its configuration.

Besides the publishers of its scenario, every agent has the publisher `witness`, a file outside its own disk. The oracle
reads it: a message in it was committed, whatever happened to the machine later.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from agent.archive.state import ArchiveState
from agent.archive.store import STATE_NAME
from agent.journal import DirectoryDisk
from agent.journal.inspection import inspect_journal
from agent.journal.lane import Lane
from agent.journal.segments import file_name
from agent.keys import DeviceKeys, create_key_file
from testbed.bench.clock import ControlledClock
from testbed.bench.devices import mqtt_topic
from testbed.bench.volume import Volume
from testbed.processes import RestartableProcess
from testbed.scenario import Agent, Device

SHIP_TIMEOUT_S: Final = 5.0


class AgentPart:
    def __init__(
        self,
        folder: Path,
        volume: Volume | None,
        clock: ControlledClock | None,
        environment: Mapping[str, str],
        original: "AgentPart | None" = None,
    ) -> None:
        """`original`: the agent of which this one is a copy: it has the same name and keys."""
        self.folder = folder
        self.name: str = folder.name if original is None else original.name
        self.data = (folder if volume is None else volume.mount_point) / "data"
        self.config = folder / "headgate.toml"
        self.witness = folder / "witness.jsonl"
        self.status_file = folder / "status.json"
        self.volume = volume
        self.clock = clock
        self.key_file = folder / "keys" / "device.keys"
        self.keys: DeviceKeys = DeviceKeys.generate(os.urandom) if original is None else original.keys
        self.address = f"0x{self.keys.address.hex()}"
        self.stream = f"{self.address}/{self.name}/readings"
        create_key_file(self.key_file, self.keys, None)
        self.process = RestartableProcess(
            *("run", "--config", str(self.config)),
            says=r"(running; device=)",
            log=folder / "agent.log",
            environment={**environment, **({} if clock is None else clock.environment)},
        )
        self._fresh_from_s = 0.0

    # Starting and stopping block, so an event loop calls them in a thread.

    def cut_power(self) -> None:
        """Pause the process before the disk loses power, so that it sees no error and writes nothing more."""
        self.process.pause()
        if self.volume is not None:
            self.volume.cut_power()
        self.process.kill()

    def power_up(self) -> None:
        if self.volume is not None:
            self.volume.restore_power()
        self.process.start()

    def close(self) -> None:
        self.process.close()
        if self.volume is not None:
            self.volume.unmount()

    # Inspecting

    def status(self) -> dict[str, Any]:
        """The content of its status file; empty before the first one is written."""
        try:
            status: dict[str, Any] = json.loads(self.status_file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return status

    def figure(self, name: str) -> int:
        """A number that a fault of a scenario can wait for."""
        status = self.status()
        match name:
            case "acknowledged":
                links = status.get("links", {})
                return sum(link["readings_acknowledged"] for link_name, link in links.items() if link_name != "witness")
            case "archived":
                return int((status.get("archives") or {}).get("shipped", 0))
            case _:
                return int(status.get("readings", 0))

    def logged(self, pattern: str) -> str | None:
        """The first group of the last match of the pattern in its log."""
        log = self.folder / "agent.log"
        found = re.findall(pattern, log.read_text(encoding="utf-8", errors="replace")) if log.exists() else []
        return str(found[-1]) if found else None

    def positions(self) -> dict[int, int]:
        """Lane → how many readings the journal has committed there so far."""
        return {number: lane.next_position for number, lane in self._lanes().items()}

    @property
    def log(self) -> bytes:
        """The id of the device log that it uses now."""
        return ArchiveState.from_bytes((self.data / "archives" / STATE_NAME).read_bytes()).log.log

    def segments(self, lane: int | None) -> list[Path]:
        """The files of the journal's live segments, of all lanes or of one."""
        lanes = self._lanes()
        chosen = lanes.values() if lane is None else [lanes[lane]] if lane in lanes else []
        return [self.data / "journal" / file_name(segment.file) for each in chosen for segment in each.segments]

    def _lanes(self) -> dict[int, Lane]:
        with closing(DirectoryDisk(self.data / "journal", read_only=True)) as disk:
            return inspect_journal(disk).lanes

    def is_device_up(self, device: str) -> bool:
        return bool(self.status().get("devices", {}).get(device, {}).get("state") == "up")

    def is_settled(self) -> bool:
        """Whether every cursor of the journal is at its end, and every loss is reported."""
        status = self.status()
        if not status or self.status_file.stat().st_mtime < self._fresh_from_s:
            return False
        journal = status["journal"]
        return not any((*journal["pending"].values(), journal["pending_losses"], status["archives"]["pending"]))

    def left_to_ship(self) -> object:
        """Counts that change while the agent ships: pending records and archives."""
        status = self.status()
        return status.get("journal", {}).get("pending"), status.get("archives")

    def expect_fresh_status(self) -> None:
        """Let `is_settled` ignore every status that is older than now."""
        self._fresh_from_s = time.time()


def configuration(
    agent: Agent,
    part: AgentPart,
    devices: Mapping[str, Device],
    ports: Mapping[str, int],
    collector_key: Path,
    serial_ports: Mapping[str, str],
) -> str:
    """The configuration file of an agent. `ports` are those of the proxies to its destinations, by their kind."""
    sections = [
        f'[device]\nname = "{part.name}"\ndata_directory = "{part.data}"\nkey_file = "{part.key_file}"',
        _journal(agent),
        *(_driver(each, device, ports, serial_ports) for each, device in devices.items()),
        _streams(agent),
        *_publishers(agent, part, ports),
        f"[archive]\nevery_s = {agent.archive_every_s}\nmin_free_megabytes = 0",  # its disks are small
        f'[ship]\nurl = "http://127.0.0.1:{ports["collector"]}"\ncollector_key = "{collector_key}"\n'
        f"check_every_s = 0.5\ntimeout_s = {SHIP_TIMEOUT_S}\npart_kilobytes = 64",
        f'[status]\nfile = "{part.status_file}"\nevery_s = 0.2',
        '[page]\nlisten = "off"',
    ]
    return "\n\n".join(sections) + "\n"


def _journal(agent: Agent) -> str:
    return (
        f"[journal]\nmax_megabytes = {agent.journal_megabytes}\nsegment_kilobytes = 256\n"
        f'commit_interval_s = {agent.commit_interval_s}\nwhen_full = "{agent.when_full}"\npositions_interval_s = 0.5'
    )


def _driver(name: str, device: Device, ports: Mapping[str, int], serial_ports: Mapping[str, str]) -> str:
    if device.kind == "microcontroller":
        return f'[drivers.{name}]\ndriver = "firmware"\nport = "{serial_ports[name]}"'
    if device.kind == "serial":
        return (
            f'[drivers.{name}]\ndriver = "serial_line"\nport = "{serial_ports[name]}"\nformat = "json"\n'
            f'max_bytes_per_s = 1000000\n[drivers.{name}.quantities.count]\nfield = "n"'
        )
    return (
        f'[drivers.{name}]\ndriver = "mqtt"\nhost = "127.0.0.1"\nport = {ports["broker"]}\n'
        f'[[drivers.{name}.subscriptions]]\ntopic = "{mqtt_topic(name)}"\nsensor = "{name}"\nquantity = "count"'
    )


def _streams(agent: Agent) -> str:
    rule = '[[streams]]\nstream = "{address}/{device}/readings"'
    if agent.encryption == "none":
        return rule
    rotation = "" if agent.rotate_after_messages is None else f"\nrotate_after_messages = {agent.rotate_after_messages}"
    return f'{rule}\nencryption = "aes"{rotation}'


def _publishers(agent: Agent, part: AgentPart, ports: Mapping[str, int]) -> list[str]:
    patience = "retry_first_s = 0.2\nretry_max_s = 2.0\ndeadline_s = 5.0"
    found = [f'[publishers.witness]\nkind = "file"\npath = "{part.witness}"\nmax_megabytes = 1000000\n{patience}']
    if agent.node is not None:
        url = f"http://127.0.0.1:{ports['node']}"
        found.append(f'[publishers.node]\nkind = "websocket"\nurl = "{url}"\n{patience}')
    if agent.broker is not None:
        found.append(f'[publishers.broker]\nkind = "mqtt"\nhost = "127.0.0.1"\nport = {ports["broker"]}\n{patience}')
    return found
