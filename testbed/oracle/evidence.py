"""Evidence for the oracle: what devices sent, and what brokers and nodes received, read from their own files."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agent.archive.settings import ARCHIVE_CURSOR
from agent.journal import DirectoryDisk
from agent.journal.inspection import inspect_journal
from agent.keys.group_keys import GroupKeyStore
from ingest.collector.log_state import LogState
from node.storage import DATABASE_NAME, reading
from protocol.streamr.group_keys.group_key import GroupKey
from testbed.bench import AgentPart, Bench, MqttDevice, NodeServer
from testbed.oracle.messages import GroupKeys, Sensor


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbers that one device sent, and those that must arrive."""

    sensor: Sensor
    produced: int  # the numbers 1 to this
    promised: frozenset[int]
    may_repeat: bool


@dataclass(slots=True)
class Evidence:
    seen: dict[bytes, str] = field(default_factory=dict)  # texts of messages, and what received them
    left: set[bytes] = field(default_factory=set)  # texts of messages that are still on a device
    sent: dict[str, Sent] = field(default_factory=dict)
    boards: dict[str, Sensor] = field(default_factory=dict)  # microcontrollers, which number from 0
    archives: list[Path] = field(default_factory=list)
    removed_archives: list[Path] = field(default_factory=list)  # removed or damaged by faults, as they were
    removed_texts: set[bytes] = field(default_factory=set)  # of messages in journals that faults removed
    landings: list[Path] = field(default_factory=list)
    logs: list[LogState] = field(default_factory=list)  # that the collectors hold
    group_keys: GroupKeys = field(default_factory=dict)


def gather_evidence(bench: Bench) -> Evidence:
    """Read the evidence. Call it when all agents have ended, and before their disks are unmounted."""
    found = Evidence()
    for name in bench.scenario.collectors:
        found.archives += bench.collector(name).archives()
        found.landings.append(bench.collector(name).landing)
        found.logs += bench.collector(name).logs()
    found.removed_archives = bench.removed.archives()
    group_keys: dict[str, dict[str, GroupKey]] = {}
    for name, agent in bench.agents.items():
        found.seen.update(dict.fromkeys(_read_witness(agent.witness), f"the witness of {name}"))
        found.left.update(_in_journal(agent.data, is_unreceipted=True))
        for data in (agent.data, *bench.removed.data_of(name)):
            group_keys.setdefault(agent.stream, {}).update(_group_keys(data, agent))
        for data in bench.removed.data_of(name):
            found.removed_texts.update(_in_journal(data))
    for name, server in bench.servers.items():
        if isinstance(server, NodeServer):
            found.seen = {**dict.fromkeys(_stored(server.data), name), **found.seen}
    found.group_keys = group_keys
    found.boards = {
        name: Sensor(bench.agents[bench.scenario.devices[name].agent].address, f"{name}/cycle") for name in bench.boards
    }
    found.sent = {name: _sent(bench, name) for name in bench.devices}
    return found


def _read_witness(path: Path) -> Iterator[bytes]:
    """The whole lines of a witness file. A line cut short by a kill was sent again."""
    if path.exists():
        yield from (line for line in path.read_bytes().split(b"\n")[:-1] if line.endswith(b"]"))


def _in_journal(data: Path, *, is_unreceipted: bool = False) -> Iterator[bytes]:
    """The records in the journal; `is_unreceipted`: those that no receipt covers yet."""
    with closing(DirectoryDisk(data / "journal", read_only=True)) as disk:
        view = inspect_journal(disk)
        receipted = view.state.cursors.get(ARCHIVE_CURSOR, {}) if is_unreceipted else {}
        for lane in view.lanes.values():
            yield from (record.payload for record in view.records(lane, receipted.get(lane.number, 0)))


def _stored(data: Path) -> Iterator[bytes]:
    """The messages that a node has stored; none if it has no database yet."""
    if (data / DATABASE_NAME).exists():
        with reading(data) as database:
            yield from (body.encode() for (body,) in database.execute("SELECT body FROM messages"))


def _group_keys(data: Path, agent: AgentPart) -> dict[str, GroupKey]:
    store = GroupKeyStore(data / "keys" / "groups", agent.keys)
    return {key.key_id: GroupKey(key.key_id, key.secret.reveal()) for key in store.history(agent.stream)}


def _sent(bench: Bench, name: str) -> Sent:
    spec, device = bench.scenario.devices[name], bench.devices[name]
    promised: set[int] = set()
    if spec.promise == "every":
        promised = set(range(1, device.produced + 1))
    elif spec.promise == "acknowledged" and isinstance(device, MqttDevice):
        device.read_acknowledgements()
        promised = set(device.acknowledged)
    sensor = Sensor(bench.agents[spec.agent].address, name)
    return Sent(sensor, device.produced, frozenset(promised), may_repeat=spec.kind == "mqtt")
