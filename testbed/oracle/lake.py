"""The content of the lake: every reading of every archive, verified independently of the ingest's code."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from protocol.archive.random_access import OpenArchive, open_archive
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import ChainVerifier
from protocol.losses import Loss
from protocol.streamr.ids import MessageID
from testbed.oracle.messages import Message, MessageReader, Sensor

LossName = tuple[str, bytes, int]  # publisher, journal, number


@dataclass(slots=True)
class Lake:
    messages: dict[MessageID, Message] = field(default_factory=dict)
    duplicates: Counter[tuple[str, str]] = field(default_factory=Counter)  # readings, by device and chain
    numbers: dict[Sensor, Counter[int]] = field(default_factory=dict)
    losses: dict[LossName, Loss] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add_record(self, record: Record, reader: MessageReader) -> None:
        message = self.add(record.text, reader)
        if message is None:
            return
        if (message.identity.ref, message.chain) != ((record.timestamp_ms, record.sequence), record.chain):
            self.problems.append(f"{message.identity}: stored under another reference or chain")
        if len(message.readings) != record.readings:
            stored = f"{record.readings} readings, but has {len(message.readings)}"
            self.problems.append(f"{message.identity}: stored with {stored}")

    def add(self, text: bytes, reader: MessageReader) -> Message | None:
        """None if it cannot be read."""
        try:
            message = reader.read(text)
        except WireError as error:
            self.problems.append(str(error))
            return None
        self._store(message)
        return message

    def _store(self, message: Message) -> None:
        known = self.messages.get(message.identity)
        if known is not None:
            self.duplicates[message.device, message.chain] += len(message.readings)
            if known.text != message.text:
                self.problems.append(f"{message.identity}: two different messages with one identity")
            return
        self.messages[message.identity] = message
        for sensor, number in message.numbers():
            self.numbers.setdefault(sensor, Counter())[number] += 1
        for reading in message.readings:
            if reading.info_type == GAP_INFO_TYPE:
                self._note_loss(message.device, GapNotice.from_bytes(reading.content_data or b""))

    def note_losses(self, archive: OpenArchive) -> None:
        """Add the losses in a manifest. Damage can destroy a record and the message that reports it."""
        header = archive.header
        publisher = f"0x{header.binding.address.hex()}"
        for loss in archive.manifest.losses:
            self.losses[publisher, header.journal_id, loss.number] = loss

    def _note_loss(self, publisher: str, notice: GapNotice) -> None:
        if not notice.archived:
            self.losses[publisher, notice.journal, notice.loss.number] = notice.loss

    @property
    def readings(self) -> int:
        return sum(len(message.readings) for message in self.messages.values())

    def reported(self, publisher: str, chain: str) -> list[Loss]:
        """The losses of a chain that its device has reported."""
        return [n for (who, _, _), n in self.losses.items() if who == publisher and n.chain == chain]

    def reported_without_chain(self, publisher: str) -> int:
        """The number of lost readings whose chain is unknown because of damage."""
        return sum(n.count for (who, _, _), n in self.losses.items() if who == publisher and not n.chain)

    @property
    def reported_losses(self) -> int:
        return sum(loss.count for loss in self.losses.values())


def check_chains(lake: Lake, removed: Lake) -> list[str]:
    """Check the references and hashes of each chain from its first message on; every gap must be explained.

    What a fault removed from the lake counts here as if it were there.
    """
    chains: dict[tuple[str, str], list[Message]] = {}
    for message in {**removed.messages, **lake.messages}.values():
        chains.setdefault((message.device, message.chain), []).append(message)
    in_order = (sorted(chain, key=lambda each: each.identity.ref) for chain in chains.values())
    return [problem for chain in in_order for problem in _check_chain(chain, lake)]


def _check_chain(messages: list[Message], lake: Lake) -> list[str]:
    problems: list[str] = []
    links = ChainVerifier()
    before: tuple[int, int] | None = None
    position = -1
    for message in messages:
        if message.previous != before:
            problems += _check_gap(message, before, _position(message, 0) - position - 1, lake)
            links = ChainVerifier()
        broken = [problem for reading in message.readings if (problem := links.check(reading)) is not None]
        problems += [f"{message.identity}: broken hash chain: {problem}" for problem in broken]
        before, position = message.identity.ref, _position(message, -1)
    return problems


def _position(message: Message, index: int) -> int:
    position = message.readings[index].chain_position
    return -1 if position is None else position


def _check_gap(message: Message, after: tuple[int, int] | None, missing: int, lake: Lake) -> list[str]:
    at = message.identity
    reported = sum(
        loss.count for loss in lake.reported(at.publisher_id, message.chain) if _touches(loss, after, at.ref)
    )
    if reported + lake.reported_without_chain(at.publisher_id) < missing:
        return [f"{at}: {missing} readings are missing before it, of which {reported} are reported"]
    return []


def _touches(loss: Loss, after: tuple[int, int] | None, before: tuple[int, int]) -> bool:
    if loss.first is None or loss.last is None:
        return False
    return (after is None or after < loss.last) and loss.first < before


def read_lake(archives: Iterable[Path], reader: MessageReader) -> Lake:
    lake = Lake()
    for path in archives:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != path.stem:
            lake.unreadable.append(f"{path.name}: its content does not match the digest in its name")
            continue
        try:
            archive = open_archive(lambda offset, count, data=data: data[offset : offset + count], len(data))  # type: ignore[misc]
            lake.note_losses(archive)
            for block in archive.blocks():
                for record in block.records:
                    lake.add_record(record, reader)
        except WireError as error:
            lake.unreadable.append(f"{path.name}: {error}")
    return lake
