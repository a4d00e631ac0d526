"""Read the readings of one message, one by one: check their hashes and links, and lay each out in columns.

`ingest/reading_columns.py` reads nearly all of them, many at a time. This module reads every kind of reading, more
slowly, and reports what is wrong with invalid ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ingest.decoded import (
    EARLIEST_MESSAGE_MS,
    EARLIEST_MS,
    LATEST_MS,
    MAX_INTEGER,
    MAX_POSITION,
    MAX_PRIORITY,
    ChainLink,
    Reading,
    check_fits,
    scalar_columns,
)
from ingest.reasons import Quarantined, Reason
from protocol.clock import CORRECTION_INFO_TYPE, ClockContext, ClockCorrection
from protocol.errors import WireError
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage import IoMessage, message_hash
from protocol.iomessage.binary_hash import hash_of_binary
from protocol.iomessage.chain import leading_zero_bits
from protocol.iomessage.content import decode_binary_content, decode_content
from protocol.scalars import unit_of

_NOTHING_DESCRIBED: Final = (None,) * 15
EVENTS: Final[dict[str, Callable[[bytes], GapNotice | ClockCorrection]]] = {
    GAP_INFO_TYPE: GapNotice.from_bytes,
    CORRECTION_INFO_TYPE: ClockCorrection.from_bytes,
}


def read_content(content: str, message_ms: int) -> list[Reading]:
    """The readings in a content: all of them, or none. Raises: Quarantined, which names the reading of a pack."""
    try:
        binary = decode_binary_content(content)
        messages: Sequence[IoMessage | bytes] = decode_content(content) if binary is None else binary
    except WireError as error:
        raise Quarantined(Reason.CONTENT_UNREADABLE, str(error)) from None
    readings: list[Reading] = []
    for message in messages:
        try:
            reading = read_reading(message, message_ms)
            if readings:
                _check_link(readings[-1].link, reading.link)
        except Quarantined as problem:
            raise _of_reading(problem, len(readings), len(messages)) from None
        readings.append(reading)
    return readings


def _of_reading(problem: Quarantined, index: int, count: int) -> Quarantined:
    return problem if count == 1 else Quarantined(problem.reason, f"reading {index} of {count}: {problem.detail}")


def _check_link(previous: ChainLink | None, link: ChainLink | None) -> None:
    """Raises: Quarantined unless the second reading continues from the first; neither of them may be linked."""
    if link is None and previous is None:
        return
    if link is None or previous is None:
        raise Quarantined(Reason.LINK_BROKEN, "of it and the reading before, only one is hash-linked")
    if link.first != previous.last + 1:
        raise Quarantined(Reason.LINK_BROKEN, f"its chain position is {link.first}, after {previous.last}")
    if link.previous_hash != previous.hash:
        raise Quarantined(Reason.LINK_BROKEN, "its previous hash is not the hash of the reading before")


def join_links(readings: Sequence[Reading]) -> ChainLink | None:
    """The link of readings that continue from each other."""
    first, last = readings[0].link, readings[-1].link
    if first is None or last is None:
        return None
    return ChainLink(first.first, last.last, last.hash, first.previous_hash)


def read_nothing(message_ms: int) -> Reading:
    """The columns of a reading whose content is not read. Raises: Quarantined."""
    return Reading((*_NOTHING_DESCRIBED, *_read_clock(None, None, message_ms)))


def read_reading(message: IoMessage | bytes, message_ms: int) -> Reading:
    """One reading, of a message of that time. Raises: Quarantined."""
    try:
        io = IoMessage.from_bytes(message) if isinstance(message, bytes) else message
    except WireError as error:
        raise Quarantined(Reason.CONTENT_UNREADABLE, str(error)) from None
    digest = _check_hash(io, message if isinstance(message, bytes) else None)
    event, described = _read_event(io), _describe(io, digest)
    clock = _read_clock(io.context_data, io.timestamp, message_ms)
    columns = (*described, *clock)
    check_fits(columns)
    return Reading(columns, _link_of(io, digest), event, clock[1])


def _link_of(io: IoMessage, digest: str | None) -> ChainLink | None:
    if digest is None or io.chain_position is None or io.chain_position > MAX_POSITION:
        return None
    return ChainLink(io.chain_position, io.chain_position, digest, io.previous_hash or None)


def _check_hash(io: IoMessage, data: bytes | None) -> str | None:
    """The hash, where the message is linked and its hash holds. Raises: Quarantined."""
    claimed = io.hash
    if not claimed:  # in JSON, it is empty where there is none
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
        io.id or None, io.publisher or None, io.tag or io.publisher or None, io.group_id or None, _small(io.priority),
        io.info_type or None, io.info_format or None, unit, *values, _fitting(io.chain_position),
        None if digest is None else bytes.fromhex(digest),
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
    read = EVENTS.get(io.info_type or "")
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
