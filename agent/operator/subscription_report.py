"""Renders the events of `headgate subscribe` and `headgate tap`: one text line or JSON object per reading."""

from collections.abc import Iterator
from typing import Any

import orjson

from agent.operator.contents import Locked, Opened, Unreadable
from agent.operator.readings import as_json, printable, summary_of, time_text
from agent.operator.subscription import Broken, Lost, SubscriptionEvent, Unverified
from protocol.iomessage import IoMessage
from protocol.streamr.stream_message import EncryptionType, StreamMessage


def as_text_lines(event: SubscriptionEvent, *, with_stream: bool = False) -> Iterator[str]:
    """One line per reading, or for any other event; nothing in it can move the reader's cursor or fill the screen.

    It begins with the time and the chain; `with_stream`, for readers of several, with the stream instead.
    """
    head = _stream_head if with_stream else _chain_head
    match event:
        case Opened(message=message, readings=[_, *_] as readings):
            yield from (f"{head(message, each)}  {printable(summary_of(each))}" for each in readings)
        case Opened(message=message, content=content):
            yield f"{head(message)}  {printable(content)}"
        case Broken() | Unreadable() | Unverified() | Locked():
            yield f"{head(event.message)}  {type(event).__name__.upper()}: {printable(event.reason)}"
        case Lost(gap=gap):
            span = f"{time_text(gap.from_ref.timestamp)} to {time_text(gap.to_ref.timestamp)}"
            yield f"{printable(gap.chain.msg_chain_id)}  LOST: {span}, {gap.cause}"


def as_json_lines(event: SubscriptionEvent) -> Iterator[str]:
    """One JSON object per reading, or for any other event."""
    return (orjson.dumps(each).decode() for each in _objects(event))


def _objects(event: SubscriptionEvent) -> Iterator[dict[str, Any]]:
    match event:
        case Opened(message=message, readings=[_, *_] as readings):
            identity, count = _identity(message), len(readings)
            for index, each in enumerate(readings):
                yield {"event": "reading", **identity, "reading": index, "readings": count, **as_json(each)}
        case Opened(message=message, content=content):
            yield {"event": "message", **_identity(message), "content": _parsed(content)}
        case Broken() | Unreadable() | Unverified() | Locked():
            yield {"event": type(event).__name__.lower(), **_identity(event.message), "reason": str(event.reason)}
        case Lost(gap=gap):
            yield {
                "event": "lost",
                "publisher": gap.chain.publisher_id,
                "chain": gap.chain.msg_chain_id,
                "from": list(gap.from_ref),
                "to": list(gap.to_ref),
                "reason": str(gap.cause),
            }


def _parsed(content: str) -> Any:
    """The content parsed as JSON; the content itself if it is not JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content


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


def _chain_head(message: StreamMessage, reading: IoMessage | None = None) -> str:
    return f"{_time(message, reading)}  {printable(message.message_id.msg_chain_id)}"


def _stream_head(message: StreamMessage, reading: IoMessage | None = None) -> str:
    return f"{_time(message, reading)}  {printable(message.message_id.stream_id)}"


def _time(message: StreamMessage, reading: IoMessage | None) -> str:
    """When the reading was taken; of anything else, the time of the message."""
    taken_at_ms = None if reading is None else reading.timestamp
    return time_text(message.message_id.timestamp if taken_at_ms is None else taken_at_ms)
