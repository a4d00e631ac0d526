"""What became of every reading, by device, from the oracle's own records. The ledger of the ingest must agree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from protocol.streamr.ids import MessageID
from testbed.oracle.evidence import Evidence
from testbed.oracle.lake import Lake
from testbed.oracle.messages import Message, MessageReader


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTruth:
    """Readings of one device, each once."""

    arrived: int  # in the lake
    on_device: int  # only on the device
    missing: int  # removed by a fault, after they were archived or committed
    lost: int  # that the device reported as lost; whether anything else has them is not always known

    @property
    def produced(self) -> int:
        """Without those that are lost."""
        return self.arrived + self.on_device + self.missing


@dataclass(slots=True)
class Truth:
    devices: dict[str, DeviceTruth] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def find_truth(evidence: Evidence, lake: Lake, removed: Lake, reader: MessageReader) -> Truth:
    """Every message that any part has had must be in the lake or on its device, or a fault removed it, or it is
    reported as lost.
    """
    known = {message.text: message for each in (removed, lake) for message in each.messages.values()}
    everything = _read_all({*known, *evidence.seen, *evidence.left}, known, reader)
    in_lake = {message.text for message in lake.messages.values()}
    was_removed = {message.text for message in removed.messages.values()}
    counts: dict[str, Counter[str]] = {}
    unnamed: Counter[str] = Counter()
    truth = Truth()
    for message in everything:
        count = counts.setdefault(message.device, Counter())
        if message.text in in_lake:
            count["arrived"] += len(message.readings)
        elif message.text in evidence.left:
            count["on_device"] += len(message.readings)
        elif message.text in was_removed:
            count["missing"] += len(message.readings)
        elif not _is_reported(message, lake):
            unnamed[message.device] += len(message.readings)
            if unnamed[message.device] > lake.reported_without_chain(message.device):
                truth.problems.append(_lost(message.identity, evidence.seen.get(message.text)))
    names = ("arrived", "on_device", "missing")
    truth.devices = {
        device: DeviceTruth(**{name: count[name] for name in names}, lost=_count_lost(device, lake, removed))
        for device, count in counts.items()
    }
    return truth


def _read_all(texts: Iterable[bytes], known: dict[bytes, Message], reader: MessageReader) -> Iterator[Message]:
    for text in sorted(texts):
        yield known[text] if text in known else reader.read(text)


def _lost(identity: MessageID, receiver: str | None) -> str:
    return f"lost: {receiver} has {identity}, but the lake does not"


def _is_reported(message: Message, lake: Lake) -> bool:
    return any(
        loss.first is not None and loss.last is not None and loss.first <= message.identity.ref <= loss.last
        for loss in lake.reported(message.device, message.chain)
    )


def _count_lost(device: str, *lakes: Lake) -> int:
    losses = {name: loss for lake in lakes for name, loss in lake.losses.items()}
    return sum(loss.count for (who, _, _), loss in losses.items() if who == device)
