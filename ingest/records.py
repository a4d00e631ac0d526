"""Decode one archived record: verify its signature, open its content, check its hash, and lay it out as a row.

`ingest/quick.py` decodes nearly every record. This module decodes every kind of message, more slowly, and reports what
is wrong with invalid ones.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ingest.decoded import (
    EARLIEST_MESSAGE_MS,
    EARLIEST_MS,
    LATEST_MS,
    MAX_INTEGER,
    MAX_PARTITION,
    MAX_POSITION,
    MAX_PRIORITY,
    ChainLink,
    Decoded,
    arrival_us,
    scalar_columns,
)
from ingest.keyring import Keyring
from ingest.quick import QuickReader
from ingest.reasons import SIGNATURE_REASONS, Quarantined, Reason
from protocol.archive.records import Record
from protocol.clock import CORRECTION_INFO_TYPE, ClockContext, ClockCorrection
from protocol.errors import WireError
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import IoMessage, message_hash
from protocol.iomessage.binary_hash import hash_of_binary
from protocol.iomessage.chain import leading_zero_bits
from protocol.iomessage.content import decode_binary_content, decode_content
from protocol.publisher_chain import REFRAMED, is_chain_id
from protocol.scalars import unit_of
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.stream_message import (
    EncryptionType,
    MessageType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.stream_message.signing import Verdict, Verifier, signed_digest

_NOTHING_DESCRIBED: Final = (None,) * 15
LOCKED: Final = "locked"
_EVENTS: Final[dict[str, Callable[[bytes], GapNotice | ClockCorrection]]] = {
    GAP_INFO_TYPE: GapNotice.from_bytes,
    CORRECTION_INFO_TYPE: ClockCorrection.from_bytes,
}


class Content(NamedTuple):
    """What a message holds: an ioMessage, where its content could and should be read as one."""

    state: str
    io: IoMessage | None
    digest: str | None = None  # SHA-256 of the ioMessage as its hash field counts it


class Readers:
    """The two ways to read and verify a message. What they have seen changes their speed, never their verdict."""

    def __init__(self) -> None:
        self.quick = QuickReader()
        self.verifier = Verifier()


def decode_record(record: Record, number: int, device: str, keyring: Keyring, readers: Readers) -> Decoded:
    """Decode a record of any kind. Raises: Quarantined."""
    message = verify_record(record, device, readers.verifier)
    readers.quick.learn(message, device)
    state, io, digest = open_content(message, keyring)
    stream_id, partition, timestamp_ms, sequence, _, msg_chain_id = message.message_id
    previous = message.prev_msg_ref and (message.prev_msg_ref.timestamp, message.prev_msg_ref.sequence_number)
    if io is None:
        event, described, clock = None, _NOTHING_DESCRIBED, _read_clock(None, None, timestamp_ms)
    else:
        event, described = _read_event(io), _describe(io, digest)
        clock = _read_clock(io.context_data, io.timestamp, timestamp_ms)
    row = (
        number, record.chain, timestamp_ms, sequence, arrival_us(record.arrived_at_ms), stream_id, partition,
        msg_chain_id, *(previous or (None, None)), state, *described, *clock, signed_digest(message),
    )  # fmt: skip
    _check_fits(row)
    if state == LOCKED:
        keyring.miss(stream_id, message.group_key_id, timestamp_ms)
    identity = (stream_id, partition, msg_chain_id)
    return Decoded(identity, (timestamp_ms, sequence), previous, _link_of(io, digest), row, event, clock[1])


def _check_fits(row: tuple[Any, ...]) -> None:
    """Signed nonsense must not stop the table that it does not fit into. Raises: Quarantined."""
    numbers = [each for each in row if type(each) is int]
    partition = row[6]
    if partition > MAX_PARTITION or max(numbers) > MAX_INTEGER:
        raise Quarantined(Reason.NOT_A_MESSAGE, "a number in it is larger than a column holds")
    try:
        "".join(each for each in row if type(each) is str).encode()
    except UnicodeEncodeError:
        raise Quarantined(Reason.NOT_A_MESSAGE, "a text in it has half a character") from None


def _link_of(io: IoMessage | None, digest: str | None) -> ChainLink | None:
    if io is None or digest is None or io.chain_position is None or io.chain_position > MAX_POSITION:
        return None
    return ChainLink(io.publisher, io.chain_position, digest, io.previous_hash)


def verify_record(record: Record, device: str, verifier: Verifier) -> StreamMessage:
    """The message that the record holds, if its device signed it. Raises: Quarantined."""
    try:
        message = parse_stream_message(record.text)
    except WireError as error:
        raise Quarantined(Reason.NOT_A_MESSAGE, str(error)) from None
    _, _, timestamp_ms, sequence, publisher_id, _ = message.message_id
    if timestamp_ms != record.timestamp_ms or sequence != record.sequence:
        raise Quarantined(Reason.MISFILED, f"the message's own reference is {timestamp_ms}, {sequence}")
    if publisher_id != device and publisher_id.lower() != device:
        raise Quarantined(Reason.FOREIGN_PUBLISHER, f"its publisher is {publisher_id[:80]!r}")
    verdict = verifier.verify(message)
    if verdict is not Verdict.VERIFIED:
        raise Quarantined(SIGNATURE_REASONS[verdict], str(verdict))
    _check_framing(message)
    return message


def _check_framing(message: StreamMessage) -> None:
    """What else a signed text could be cut into: a device signs neither such chain ids nor by ETH_LEGACY.

    Whatever the content: its type is not signed, so a reading can be shown as a message of another type.
    Raises: Quarantined.
    """
    if message.signature_type is SignatureType.ETH_LEGACY:
        raise Quarantined(Reason.SIGNATURE_UNCHECKABLE, "ETH_LEGACY signs neither partition, sequence number nor chain")
    if not is_chain_id(message.message_id.msg_chain_id):
        raise Quarantined(Reason.CHAIN_ID_MALFORMED, REFRAMED)


def open_content(message: StreamMessage, keyring: Keyring) -> Content:
    """Raises: Quarantined."""
    if message.message_type is not MessageType.MESSAGE:
        return Content("other", None)
    if message.encryption_type is EncryptionType.NONE:
        return _read_iomessage("plain", message.content)
    key = keyring.find(message.message_id.stream_id, message.group_key_id)
    if key is None or message.encryption_type is EncryptionType.RSA:
        return Content(LOCKED, None)
    try:
        content, next_key = decrypt_message(message, key)
    except WireError as error:
        raise Quarantined(Reason.UNDECRYPTABLE, str(error)) from None
    if next_key is not None:
        keyring.learn(message.message_id.stream_id, next_key)
    return _read_iomessage("decrypted", content)


def _read_iomessage(state: str, content: str) -> Content:
    try:
        binary = decode_binary_content(content)
        io = decode_content(content)[0]
    except WireError as error:
        raise Quarantined(Reason.CONTENT_UNREADABLE, str(error)) from None
    return Content(state, io, _check_hash(io, binary[0] if binary else None))


def _check_hash(io: IoMessage, data: bytes | None) -> str | None:
    """The hash, where the message is linked and its hash holds. Raises: Quarantined."""
    claimed = io.hash
    if claimed is None:
        return None
    if (data is None or hash_of_binary(data) != claimed) and _rewritten_hash(io) != claimed:
        raise Quarantined(Reason.HASH_MISMATCH, "its content does not hash to what its hash field says")
    if io.difficulty_target and leading_zero_bits(claimed) < io.difficulty_target:
        raise Quarantined(Reason.HASH_MISMATCH, f"its hash does not begin with {io.difficulty_target} zero bits")
    return claimed


def _rewritten_hash(io: IoMessage) -> str | None:
    try:
        return message_hash(io)
    except WireError:
        return None


def _describe(io: IoMessage, digest: str | None) -> tuple[Any, ...]:
    """The columns from `message_id` to `hash`."""
    unit = unit_of(io.info_format or "")
    values = (None, None, None, None, io.content_data) if unit is None else _scalar_columns(io.content_data or b"")
    return (
        io.id, io.publisher, io.tag or io.publisher, io.group_id or None, _small(io.priority), io.info_type,
        io.info_format, unit, *values, _fitting(io.chain_position), None if digest is None else bytes.fromhex(digest),
    )  # fmt: skip


def _scalar_columns(data: bytes) -> tuple[Any, ...]:
    try:
        return scalar_columns(data)
    except WireError as error:
        raise Quarantined(Reason.CONTENT_UNREADABLE, f"not a scalar: {error}") from None


def _small(number: int | None) -> int | None:
    return None if number is None else min(number, MAX_PRIORITY)


def _fitting(number: int | None) -> int | None:
    return number if number is None or number <= MAX_INTEGER else None


def _read_event(io: IoMessage) -> GapNotice | ClockCorrection | None:
    """What the device says about its own data, if this is such a message. Raises: Quarantined."""
    read = _EVENTS.get(io.info_type or "")
    try:
        return None if read is None else read(io.content_data or b"")
    except WireError as error:
        raise Quarantined(Reason.CONTENT_UNREADABLE, str(error)) from None


def _read_clock(context: bytes | None, reading_ms: int | None, message_ms: int) -> tuple[Any, ...]:
    """The columns from `clock` to `event_time`."""
    event_ms = reading_ms or message_ms
    counted = None if context is None else _read_context(context)
    if counted is not None and not counted.is_synchronised:
        return ("unsynchronised", counted.boot_id.hex(), counted.monotonic_ms, min(event_ms, LATEST_MS) * 1000)
    if not (EARLIEST_MS <= event_ms < LATEST_MS and EARLIEST_MESSAGE_MS <= message_ms < LATEST_MS):
        raise Quarantined(Reason.TIME_OUT_OF_RANGE, f"made at {event_ms} ms, published at {message_ms} ms")
    return ("synchronised", None, None, event_ms * 1000)


def _read_context(data: bytes) -> ClockContext | None:
    """None for a context of another kind: what else stands there is the device's own affair."""
    try:
        return ClockContext.from_bytes(data)
    except WireError:
        return None
