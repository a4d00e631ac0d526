"""Writes archives as devices do, and records the expected result of every message in them.

A `Device` signs with its own keys, a `Chain` makes messages, and an `Archive` stores them as records. A test may damage
records before they are stored, and states the expected reason of their quarantine. Everything is derived from numbers,
so the same corpus is made every time.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nacl.signing import SigningKey

from protocol.archive.header import Header
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.binding import sign_binding
from protocol.clock import CORRECTION_INFO_TYPE, MEDIA_TYPE, ClockContext, ClockCorrection
from protocol.devicelog.entry import LogEntry
from protocol.devicelog.log import LogHead
from protocol.ethereum.signer import Signer
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import EMPTY_CHAIN, IoMessage, element_id, hash_link
from protocol.iomessage.content import encode_binary_content, encode_json_content
from protocol.losses import Loss
from protocol.reference import Reference
from protocol.scalars import Scalar, encode_scalar, scalar_format
from protocol.streamr.group_keys.encryption import encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message, signed_digest

MSG_CHAIN_ID = "chain-of-this-corpus"

Ref = tuple[int, int]


def noise(*seed: object) -> bytes:
    """32 pseudo-random bytes of a seed."""
    return hashlib.sha256(repr(seed).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What one reading says, before it is linked, and the columns that are expected of that."""

    quantity: str
    info_format: str
    content: bytes
    at_ms: int
    columns: dict[str, Any]
    sensor: str | None = None  # another than that of the chain
    context: ClockContext | None = None
    spoil_hash: bool = False
    broken_link: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeReading:
    """One reading. `row` holds its expected columns, except those about the archive and its time."""

    row: dict[str, Any]
    at_ms: int
    boot: str | None
    monotonic_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One message of a device."""

    chain: "Chain"
    message: StreamMessage
    readings: list[MadeReading]

    @property
    def ref(self) -> Ref:
        return self.message.message_id.timestamp, self.message.message_id.sequence_number

    @property
    def text(self) -> bytes:
        return self.message.serialize().encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """One record of an archive. `reason` is the expected reason of its quarantine, None if it must be ingested."""

    record: Record
    made: Made | None
    reason: str | None = None


class Device:
    def __init__(self, number: int) -> None:
        self.signer = Signer(noise("identity", number))
        self.archive_key = SigningKey(noise("archive key", number))
        self.journal = noise("journal", number)[:16]
        self.positions = 0
        self.head = LogHead(log=noise("log", number)[:16])  # of the log of its bulk archives
        self.chains: list[Chain] = []

    @property
    def address(self) -> str:
        return self.signer.address

    def chain(self, name: str, **options: Any) -> "Chain":
        chain = Chain(self, name, **options)
        self.chains.append(chain)
        return chain


@dataclass
class Chain:
    """Makes the messages of one chain. `produced` holds all of them."""

    device: Device
    name: str
    sensor: str = "boiler"
    quantity: str = "temperature"
    unit: str = "Cel"
    as_json: bool = False
    linked: bool = True
    key: GroupKey | None = None
    readable: bool = True  # whether the ingest is given the key
    produced: list[Made] = field(default_factory=list)
    _previous: MessageRef | None = None
    _head: Any = EMPTY_CHAIN
    _drafted: int = 0

    @property
    def stream_id(self) -> str:
        return f"{self.device.address}/{self.name}"

    def reading(
        self,
        value: Scalar,
        at_ms: int,
        *,
        next_key: GroupKey | None = None,
        sign: Callable[[StreamMessage], StreamMessage] | None = None,
        **options: Any,
    ) -> Made:
        """A message with one scalar."""
        return self.send([self.draft(value, at_ms, **options)], at_ms, next_key=next_key, sign=sign)

    def pack(self, values: Sequence[Scalar], at_ms: int, *, step_ms: int = 1) -> Made:
        """A message with several scalars, the last of them taken at the time of the message."""
        first_ms = at_ms - (len(values) - 1) * step_ms
        return self.send([self.draft(value, first_ms + each * step_ms) for each, value in enumerate(values)], at_ms)

    def draft(self, value: Scalar, at_ms: int, **options: Any) -> Draft:
        """A scalar reading."""
        return Draft(
            quantity=self.quantity,
            info_format=scalar_format(self.unit),
            content=encode_scalar(value),
            at_ms=at_ms,
            columns={"unit": self.unit, **_value_columns(value)},
            **options,
        )

    def payload(self, quantity: str, mime: str, content: bytes, at_ms: int) -> Made:
        return self.send([raw_draft(quantity, mime, content, at_ms)], at_ms)

    def notice(self, notice: GapNotice, at_ms: int) -> Made:
        return self.payload(GAP_INFO_TYPE, MEDIA_TYPE, notice.to_bytes(), at_ms)

    def correction(self, correction: ClockCorrection, at_ms: int) -> Made:
        return self.payload(CORRECTION_INFO_TYPE, MEDIA_TYPE, correction.to_bytes(), at_ms)

    def send(
        self,
        drafts: Sequence[Draft],
        at_ms: int,
        *,
        next_key: GroupKey | None = None,
        sign: Callable[[StreamMessage], StreamMessage] | None = None,
    ) -> Made:
        """A message with these readings."""
        linked = [self._link(draft) for draft in drafts]
        written = [
            io.replace(hash="00" * 32) if draft.spoil_hash else io for draft, io in zip(drafts, linked, strict=True)
        ]
        message = self._message(written, at_ms, next_key)
        signed = sign_message(message, self.device.signer) if sign is None else sign(message)
        shared = self._shared_columns(signed, len(drafts))
        readings = [
            _made(draft, {**shared, "reading": index, **self._columns(draft, io)})
            for index, (draft, io) in enumerate(zip(drafts, linked, strict=True))
        ]
        made = Made(chain=self, message=signed, readings=readings)
        self.produced.append(made)
        return made

    def _link(self, draft: Draft) -> IoMessage:
        io = IoMessage(
            id=noise(self.stream_id, self._drafted).hex()[:43],
            timestamp=draft.at_ms,
            publisher=element_id(self.device.address, draft.sensor or self.sensor),
            tag=draft.sensor or self.sensor,
            info_type=draft.quantity,
            info_format=draft.info_format,
            content_data=draft.content,
            priority=3,
            context_data=None if draft.context is None else draft.context.to_bytes(),
        )
        self._drafted += 1
        if self.linked:
            io = hash_link(io, self._head._replace(hash="ab" * 32) if draft.broken_link else self._head)
            self._head = type(self._head).of(io)
        return io

    def _message(self, written: list[IoMessage], at_ms: int, next_key: GroupKey | None) -> StreamMessage:
        last = self._previous
        follows = last is None or at_ms > last.timestamp
        ref = MessageRef(at_ms, 0) if last is None or follows else MessageRef(last.timestamp, last.sequence_number + 1)
        message = StreamMessage(
            MessageID(self.stream_id, 0, *ref, self.device.address, MSG_CHAIN_ID),
            encode_json_content([io.to_json() for io in written])
            if self.as_json
            else encode_binary_content([io.to_bytes() for io in written]),
            prev_msg_ref=last,
        )
        self._previous = ref
        if self.key is None:
            return message
        number = len(self.produced)
        iv = iter([noise("iv", self.stream_id, number, each)[:16] for each in range(2)])
        encrypted = encrypt_message(message, self.key, lambda _: next(iv), next_key=next_key)
        self.key = next_key or self.key
        return encrypted

    def _shared_columns(self, message: StreamMessage, readings: int) -> dict[str, Any]:
        previous = message.prev_msg_ref
        return {
            "device": self.device.address,
            "chain": self.name,
            "timestamp_ms": message.message_id.timestamp,
            "sequence": message.message_id.sequence_number,
            "stream_id": self.stream_id,
            "stream_partition": 0,
            "msg_chain_id": MSG_CHAIN_ID,
            "previous_timestamp_ms": None if previous is None else previous.timestamp,
            "previous_sequence": None if previous is None else previous.sequence_number,
            "signed_digest": signed_digest(message),
            "content_state": "plain" if self.key is None else "decrypted" if self.readable else "locked",
            "readings": readings,
        }

    def _columns(self, draft: Draft, io: IoMessage) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(_COLUMNS_OF_CONTENT)
        if not self.readable:
            return row
        return {
            **row,
            "message_id": io.id,
            "element": io.publisher,
            "sensor": io.tag,
            "priority": io.priority,
            "quantity": io.info_type,
            "format": io.info_format,
            "chain_position": io.chain_position,
            "hash": None if io.hash is None else bytes.fromhex(io.hash),
            **draft.columns,
        }


def raw_draft(quantity: str, mime: str, content: bytes, at_ms: int) -> Draft:
    return Draft(quantity=quantity, info_format=mime, content=content, at_ms=at_ms, columns={"content": content})


def _made(draft: Draft, row: dict[str, Any]) -> MadeReading:
    counted = None if draft.context is None or draft.context.is_synchronised else draft.context
    return MadeReading(
        row=row,
        at_ms=draft.at_ms,
        boot=None if counted is None else counted.boot_id.hex(),
        monotonic_ms=None if counted is None else counted.monotonic_ms,
    )


_COLUMNS_OF_CONTENT = (
    "message_id", "element", "sensor", "group_id", "priority", "quantity", "format", "unit", "value", "value_integer",
    "value_text", "value_boolean", "content", "chain_position", "hash",
)  # fmt: skip


def _value_columns(value: Scalar) -> dict[str, Any]:
    match value:
        case bool():
            return {"value_boolean": value}
        case int():
            return {"value": float(value), "value_integer": value}
        case float():
            return {"value": value}
        case str():
            return {"value_text": value}
    return {"content": value}


class Archive:
    """Builds one archive of messages, some of which may be damaged."""

    def __init__(self, device: Device, created_at_ms: int, *, block_target_bytes: int = 4096) -> None:
        self.device = device
        self.created_at_ms = created_at_ms
        self.filed: list[Filed] = []
        self.losses: list[Loss] = []
        self._block_target_bytes = block_target_bytes

    def add(self, messages: Iterable[Made]) -> "Archive":
        for made in messages:
            self.file(made)
        return self

    def file(
        self,
        made: Made,
        *,
        text: bytes | None = None,
        reason: str | None = None,
        ref: Ref | None = None,
        readings: int | None = None,
    ) -> None:
        """Add a record, optionally with another text, under another reference, or with another number of readings."""
        timestamp_ms, sequence = ref or made.ref
        count = len(made.readings) if readings is None else readings
        record = Record(
            text=made.text if text is None else text,
            chain=made.chain.name,
            timestamp_ms=timestamp_ms,
            sequence=sequence,
            lane=0,
            position=self.device.positions,
            arrived_at_ms=timestamp_ms + 5,
            readings=count,
        )
        self.device.positions += count
        self.filed.append(Filed(record=record, made=made, reason=reason))

    def lose(self, messages: list[Made], number: int, cause: str) -> None:
        """Report these messages of one chain as lost in the manifest."""
        first, last = messages[0], messages[-1]
        count = sum(len(made.readings) for made in messages)
        loss = Loss(
            number=number,
            lane=0,
            chain=first.chain.name,
            first_position=self.device.positions,
            last_position=self.device.positions + count - 1,
            count=count,
            first=Reference(*first.ref),
            last=Reference(*last.ref),
            cause=cause,
        )
        self.device.positions += count
        self.losses.append(loss)

    def spoil(self, numbers: Iterable[int], reason: str) -> None:
        """Expect these records in quarantine, for this reason."""
        for number in numbers:
            self.filed[number] = replace(self.filed[number], reason=reason)

    def to_bytes(self, entry: LogEntry | None = None) -> bytes:
        """The archive with this place in the device's log; without one, it is the first of a log of its own."""
        binding = sign_binding(self.device.signer, bytes(self.device.archive_key.verify_key))
        header = Header(binding=binding, journal_id=self.device.journal, created_at_ms=self.created_at_ms)
        writer = ArchiveWriter(
            header,
            sign=lambda data: self.device.archive_key.sign(data).signature,
            block_target_bytes=self._block_target_bytes,
        )
        parts = [writer.begin(), *(writer.add(filed.record) for filed in self.filed)]
        for loss in self.losses:
            writer.add_loss(loss)
        return b"".join([*parts, writer.finish(entry or self._entry_of_its_own(writer.reached))])

    def _entry_of_its_own(self, reached: dict[int, int]) -> LogEntry:
        begin = min((filed.record.position for filed in self.filed), default=0)
        log = noise("log", self.device.address, begin, *reached.values())[:16]
        return LogHead(log=log, begins=dict.fromkeys(reached, begin)).entry(reached)
