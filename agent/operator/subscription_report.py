"""Renders the events of `headgate subscribe` as text lines or JSON objects."""

import math
from typing import Any, Final

import orjson

from agent.operator.message_reports import io_message_in, parsed_json
from agent.operator.subscription import Locked, Lost, Opened, SubscriptionEvent, Unverified
from protocol.errors import WireError
from protocol.events import MEDIA_TYPE
from protocol.iomessage import IoMessage
from protocol.scalars import decode_scalar, unit_of
from protocol.shown_text import printable_start, utc_text
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from protocol.strict_cbor import CborBounds, decode

MAX_SHOWN_CHARACTERS: Final = 300
NOTICE_BOUNDS: Final = CborBounds(max_bytes=8192, max_items=64, max_depth=4)


def as_text_line(event: SubscriptionEvent, *, with_stream: bool = False) -> str:
    """One line; nothing in the message can move the reader's cursor or fill the screen. Empty: nothing to show.

    It begins with the time and the chain; `with_stream`, for readers of several, with the stream instead.
    """
    head = _stream_head if with_stream else _chain_head
    match event:
        case Opened(message=message, content=content):
            return f"{head(message)}  {printable(_summary(content))}"
        case Unverified(message=message, reason=reason):
            return f"{head(message)}  UNVERIFIED: {reason}"
        case Locked(message=message, reason=reason):
            return f"{head(message)}  LOCKED: {printable(reason)}"
        case Lost(gap=gap):
            span = f"{_time(gap.from_ref.timestamp)} to {_time(gap.to_ref.timestamp)}"
            return f"{printable(gap.chain.msg_chain_id)}  LOST: {span}, {gap.cause}"
    return ""


def as_json_line(event: SubscriptionEvent) -> str:
    """One JSON object. Empty: nothing to show."""
    match event:
        case Opened(message=message, content=content):
            fields: dict[str, Any] = {"event": "message", **_identity(message), "content": parsed_json(content)}
            if (inner := io_message_in(content)) is not None:
                fields["io_message"] = orjson.loads(inner.to_json())
                fields["value"] = _json_value(inner)
        case Unverified(message=message, reason=reason):
            fields = {"event": "unverified", **_identity(message), "reason": str(reason)}
        case Locked(message=message, reason=reason):
            fields = {"event": "locked", **_identity(message), "reason": reason}
        case Lost(gap=gap):
            fields = {
                "event": "lost",
                "publisher": gap.chain.publisher_id,
                "chain": gap.chain.msg_chain_id,
                "from": list(gap.from_ref),
                "to": list(gap.to_ref),
                "reason": str(gap.cause),
            }
        case _:
            return ""
    return orjson.dumps(fields).decode()


def _identity(message: StreamMessage) -> dict[str, Any]:
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    return {
        "stream": stream_id,
        "partition": partition,
        "timestamp_ms": timestamp,
        "sequence": sequence,
        "publisher": publisher,
        "chain": chain,
        "encrypted": message.encryption_type is not EncryptionType.NONE,
    }


def _chain_head(message: StreamMessage) -> str:
    return f"{_time(message.message_id.timestamp)}  {printable(message.message_id.msg_chain_id)}"


def _stream_head(message: StreamMessage) -> str:
    return f"{_time(message.message_id.timestamp)}  {printable(message.message_id.stream_id)}"


def _time(timestamp_ms: int) -> str:
    return utc_text(timestamp_ms).replace("+00:00", "Z")


def _summary(content: str) -> str:
    """A reading as sensor, quantity and value; an event of the agent as its fields; anything else as its content."""
    message = io_message_in(content)
    if message is None:
        return content
    if (notice := _notice(message)) is not None:
        fields = (f"{name}={value}" for name, value in notice.items())
        return " ".join([_name(message) or "", message.info_type or "", *fields]).strip()
    value = _scalar(message)
    shown = f"{len(message.content_data or b'')} bytes" if value is None else str(value)
    unit = unit_of(message.info_format or "")
    unit = message.info_format if unit is None else unit
    return " ".join(part for part in (_name(message), message.info_type, shown, unit) if part)


def _name(message: IoMessage) -> str | None:
    """The sensor's name for people, which the Tag holds; of writers that set none, the Publisher."""
    return message.tag or message.publisher


def _scalar(message: IoMessage) -> Any:
    if unit_of(message.info_format or "") is None:
        return None
    try:
        return decode_scalar(message.content_data or b"")
    except WireError:
        return None


def _notice(message: IoMessage) -> dict[str, Any] | None:
    """The fields of an event: a small CBOR map, with bytes in hex."""
    if message.info_format != MEDIA_TYPE:
        return None
    try:
        fields = decode(message.content_data or b"", NOTICE_BOUNDS)
    except WireError:
        return None
    if not isinstance(fields, dict):
        return None
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}


def _json_value(message: IoMessage) -> Any:
    if (notice := _notice(message)) is not None:
        return notice
    value = _scalar(message)
    is_unwritable = isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value))
    return None if is_unwritable else value


def printable(text: str) -> str:
    """On one line of bounded length, with nothing in it that a terminal would obey."""
    return printable_start(text, MAX_SHOWN_CHARACTERS)
