"""Evidence for the oracle: what devices sent, and what brokers and nodes received, read from their own files."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agent.archive.settings import ARCHIVE_CURSOR
from agent.journal import DirectoryDisk
from agent.journal.inspection import inspect_journal
from agent.keys.group_keys import GroupKeyStore
from node.storage import DATABASE_NAME, reading
from protocol.streamr.group_keys.group_key import GroupKey
from testbed.bench import AgentPart, Bench, MqttDevice, NodeServer
from testbed.oracle.lake import GroupKeys, Sensor


@dataclass(frozen=True, slots=True)
class Said:
    """The numbers that one device sent, and those that must arrive."""

    sensor: Sensor
    produced: int  # the numbers 1 to this
    owed: frozenset[int]
    may_repeat: bool


@dataclass(slots=True)
class Evidence:
    seen: dict[bytes, str] = field(default_factory=dict)  # texts of messages, and who saw them
    left: set[bytes] = field(default_factory=set)  # texts that are still on a device
    said: dict[str, Said] = field(default_factory=dict)
    boards: dict[str, Sensor] = field(default_factory=dict)  # that count by themselves, from 0
    archives: list[Path] = field(default_factory=list)
    group_keys: GroupKeys = field(default_factory=dict)


def gather_evidence(bench: Bench) -> Evidence:
    """When all agents have ended, and before their disks are gone."""
    found = Evidence()
    for name in bench.scenario.collectors:
        found.archives += bench.collector(name).archives()
    group_keys: dict[str, dict[str, GroupKey]] = {}
    for name, agent in bench.agents.items():
        found.seen.update(dict.fromkeys(_witnessed(agent.witness), f"the witness of {name}"))
        found.left.update(_left_in_journal(agent))
        group_keys |= _group_keys(name, agent)
    for name, server in bench.servers.items():
        if isinstance(server, NodeServer):
            found.seen = {**dict.fromkeys(_stored(server.data), name), **found.seen}
    found.group_keys = group_keys
    found.boards = {
        name: Sensor(bench.agents[bench.scenario.devices[name].agent].address, f"{name}/cycle") for name in bench.boards
    }
    found.said = {name: _said(bench, name) for name in bench.devices}
    return found


def _witnessed(path: Path) -> Iterator[bytes]:
    """Whole lines; one that was cut short has been ended by the next process and sent again."""
    if path.exists():
        yield from (line for line in path.read_bytes().split(b"\n")[:-1] if line.endswith(b"]"))


def _left_in_journal(agent: AgentPart) -> Iterator[bytes]:
    """Records that no receipt covers yet, whatever else a segment still holds."""
    with closing(DirectoryDisk(agent.data / "journal", read_only=True)) as disk:
        view = inspect_journal(disk)
        receipted = view.state.cursors.get(ARCHIVE_CURSOR, {})
        for lane in view.lanes.values():
            yield from (record.payload for record in view.records(lane, receipted.get(lane.number, 0)))


def _stored(data: Path) -> Iterator[bytes]:
    """A node that forgot everything may have no file yet."""
    if (data / DATABASE_NAME).exists():
        with reading(data) as database:
            yield from (body.encode() for (body,) in database.execute("SELECT body FROM messages"))


def _group_keys(name: str, agent: AgentPart) -> dict[str, dict[str, GroupKey]]:
    store = GroupKeyStore(agent.data / "keys" / "groups", agent.keys)
    stream_id = f"{agent.address}/{name}/readings"
    return {stream_id: {key.key_id: GroupKey(key.key_id, key.secret.reveal()) for key in store.history(stream_id)}}


def _said(bench: Bench, name: str) -> Said:
    spec, device = bench.scenario.devices[name], bench.devices[name]
    owed: set[int] = set()
    if spec.promise == "every":
        owed = set(range(1, device.produced + 1))
    elif spec.promise == "acknowledged" and isinstance(device, MqttDevice):
        device.take_acknowledgements()
        owed = set(device.acknowledged)
    sensor = Sensor(bench.agents[spec.agent].address, name)
    return Said(sensor, device.produced, frozenset(owed), may_repeat=spec.kind == "mqtt")
