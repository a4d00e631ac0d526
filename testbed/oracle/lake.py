"""The content of the lake: every message of every archive, verified independently of the ingest's code."""

import binascii
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from protocol.archive.random_access import OpenArchive, open_archive
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import ChainVerifier, IoMessage
from protocol.iomessage.content import decode_content
from protocol.losses import Loss
from protocol.scalars import decode_scalar
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, Verifier

QUANTITY: Final = "count"  # of the devices of the bench

GroupKeys = Mapping[str, Mapping[str, GroupKey]]  # by stream, by key id


class Sensor(NamedTuple):
    publisher: str
    name: str


@dataclass(slots=True)
class Arrived:
    text: bytes
    chain_name: str  # as the device calls the chain
    previous: tuple[int, int] | None
    io: IoMessage


@dataclass(slots=True)
class Lake:
    messages: dict[MessageID, Arrived] = field(default_factory=dict)
    duplicates: int = 0
    numbers: dict[Sensor, Counter[int]] = field(default_factory=dict)
    losses: dict[tuple[str, bytes, int], Loss] = field(default_factory=dict)  # by publisher, journal, number
    unreadable: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, record: Record, verifier: Verifier, keys: GroupKeys) -> None:
        try:
            message = parse_stream_message(record.text)
            if verifier.verify(message) is not Verdict.VERIFIED:
                self.problems.append(f"invalid signature: {record.text[:80]!r}")
                return
            io = _io_message(message, keys)
        except (WireError, ValueError, KeyError, binascii.Error) as error:
            self.problems.append(f"unreadable message: {error}: {record.text[:80]!r}")
            return
        identity = identity_of(message)
        if identity.ref != (record.timestamp_ms, record.sequence):
            self.problems.append(f"{identity}: stored under another reference")
        self._store(identity, Arrived(record.text, record.chain, message.prev_msg_ref, io))

    def _store(self, identity: MessageID, arrived: Arrived) -> None:
        known = self.messages.get(identity)
        if known is not None:
            self.duplicates += 1
            if known.text != arrived.text:
                self.problems.append(f"{identity}: two different messages with one identity")
            return
        self.messages[identity] = arrived
        io = arrived.io
        if io.info_type == GAP_INFO_TYPE:
            self._note_loss(identity.publisher_id, io)
        elif io.info_type == QUANTITY:
            number = decode_scalar(io.content_data or b"")
            assert isinstance(number, int | float)
            self.numbers.setdefault(Sensor(identity.publisher_id, io.tag or ""), Counter())[int(number)] += 1

    def note_losses(self, archive: OpenArchive) -> None:
        """Add the losses in a manifest. Damage can destroy a record and the message that reports it."""
        header = archive.header
        publisher = f"0x{header.binding.address.hex()}"
        for loss in archive.manifest.losses:
            self.losses[publisher, header.journal_id, loss.number] = loss

    def _note_loss(self, publisher: str, io: IoMessage) -> None:
        notice = GapNotice.from_bytes(io.content_data or b"")
        if not notice.archived:
            self.losses[publisher, notice.journal, notice.loss.number] = notice.loss

    def reported(self, publisher: str, chain_name: str) -> list[Loss]:
        """The losses of a chain that its device has reported."""
        return [n for (who, _, _), n in self.losses.items() if who == publisher and n.chain == chain_name]

    def reported_without_chain(self, publisher: str) -> int:
        """The number of lost messages whose chain is unknown because of damage."""
        return sum(n.count for (who, _, _), n in self.losses.items() if who == publisher and not n.chain)

    @property
    def reported_losses(self) -> int:
        return sum(loss.count for loss in self.losses.values())

    def check_chains(self) -> None:
        """Check the references and hashes of each chain from its first message on; every gap must be explained.

        With unreadable archives gaps are expected, and not checked.
        """
        chains: dict[tuple[str, int, str, str], list[MessageID]] = {}
        for identity in self.messages:
            chain = (identity.stream_id, identity.stream_partition, identity.publisher_id, identity.msg_chain_id)
            chains.setdefault(chain, []).append(identity)
        for identities in chains.values():
            self._check_chain(sorted(identities, key=lambda each: each.ref))

    def _check_chain(self, identities: list[MessageID]) -> None:
        links = ChainVerifier()
        before: tuple[int, int] | None = None
        position = -1
        for identity in identities:
            arrived = self.messages[identity]
            here = arrived.io.chain_position if arrived.io.chain_position is not None else -1
            if arrived.previous != before:
                self._check_gap(identity, arrived, before, here - position - 1)
                links = ChainVerifier()
            if (broken := links.check(arrived.io)) is not None:
                self.problems.append(f"{identity}: broken hash chain: {broken}")
            before, position = identity.ref, here

    def _check_gap(self, at: MessageID, arrived: Arrived, after: tuple[int, int] | None, missing: int) -> None:
        reported = sum(
            loss.count for loss in self.reported(at.publisher_id, arrived.chain_name) if _touches(loss, after, at.ref)
        )
        if reported + self.reported_without_chain(at.publisher_id) < missing and not self.unreadable:
            self.problems.append(f"{at}: {missing} messages are missing before it, of which {reported} are reported")


def identity_of(message: StreamMessage) -> MessageID:
    """The id of a message, with the publisher in lower case."""
    return message.message_id._replace(publisher_id=message.message_id.publisher_id.lower())


def _touches(loss: Loss, after: tuple[int, int] | None, before: tuple[int, int]) -> bool:
    if loss.first is None or loss.last is None:
        return False
    return (after is None or after < loss.last) and loss.first < before


def read_lake(archives: Iterable[Path], keys: GroupKeys) -> Lake:
    lake, verifier = Lake(), Verifier()
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
                    lake.add(record, verifier, keys)
        except WireError as error:
            lake.unreadable.append(f"{path.name}: {error}")
    return lake


def _io_message(message: StreamMessage, keys: GroupKeys) -> IoMessage:
    content = message.content
    if message.encryption_type is not EncryptionType.NONE:
        stream_id = message.message_id.stream_id
        content = decrypt_message(message, keys[stream_id][message.group_key_id or ""]).content
    return decode_content(content)[0]
