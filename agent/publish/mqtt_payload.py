"""What stands in an MQTT publication, and on which topic. Pure functions and values.

| payload | one message | several |
|---|---|---|
| `stream_message` | the serialised StreamMessage, byte for byte as it was signed and stored | a JSON array of them |
| `io_message` | the ioMessage in its binary embodiment, or its JSON where the stream's content is JSON | never |

A reader tells one from several by the first element: a number, or an array.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import orjson

from agent.errors import Rejected
from agent.journal import Record
from protocol.streamr import EncryptionType

__all__ = ["PayloadForm", "Publication", "Unsendable", "check_topic_template", "pack", "topic_of"]

PayloadForm = Literal["stream_message", "io_message"]

MAX_TOPIC_BYTES = 65_535
MAX_REMEMBERED_TOPICS = 1_024
PACKED_BYTES = 128 * 1024  # more in one publication saves nothing
PACKET_OVERHEAD_BYTES = 64  # of a PUBLISH, beside topic and payload
_PLACEHOLDERS = {"stream": "s", "partition": "0", "publisher": "p", "chain": "c"}
_NOT_IN_TOPICS = frozenset("+#\0")


class Publication(NamedTuple):
    topic: str
    payload: bytes
    records: tuple[Record, ...]


class Unsendable(NamedTuple):
    record: Record
    reason: str


class _Item(NamedTuple):
    topic: str
    payload: bytes
    size: int
    record: Record


def check_topic_template(template: str) -> None:
    """Raises ValueError, saying what a template may hold."""
    try:
        topic = template.format(**_PLACEHOLDERS)
    except (KeyError, IndexError, ValueError):
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise ValueError(f"topic {template!r} holds something else in braces than {known}") from None
    if not topic or _NOT_IN_TOPICS & set(topic):
        raise ValueError(f"topic {template!r} is empty or holds +, # or NUL")


@lru_cache(maxsize=MAX_REMEMBERED_TOPICS)
def topic_of(template: str, stream_id: str, partition: int, publisher: str, chain: str) -> str:
    """Raises: Rejected, where the message's names make no topic."""
    topic = template.format(stream=stream_id, partition=partition, publisher=publisher, chain=chain)
    if _NOT_IN_TOPICS & set(topic) or len(topic.encode()) > MAX_TOPIC_BYTES:
        raise Rejected(f"{topic[:100]!r} is no MQTT topic")
    return topic


def pack(
    records: Sequence[Record], template: str, form: PayloadForm, *, max_messages: int, max_bytes: int
) -> Iterator[Publication | Unsendable]:
    """Publications of neighbouring records with the same topic, in order; a record that cannot be sent comes alone.

    `max_bytes` is what the broker takes as one packet.
    """
    max_messages = max_messages if form == "stream_message" else 1
    waiting: list[_Item] = []
    size = 0
    for record in records:
        try:
            item = _item(record, template, form, max_bytes)
        except Rejected as problem:
            yield Unsendable(record, str(problem))
            continue
        is_full = len(waiting) >= max_messages or size + item.size > min(PACKED_BYTES, max_bytes)
        if waiting and (is_full or item.topic != waiting[0].topic):
            yield _publication(waiting)
            waiting, size = [], 0
        waiting.append(item)
        size += item.size
    if waiting:
        yield _publication(waiting)


def _item(record: Record, template: str, form: PayloadForm, max_bytes: int) -> _Item:
    try:
        elements = orjson.loads(record.payload)
        stream_id, partition, _, _, publisher, chain = elements[1]
        topic = topic_of(template, stream_id, partition, publisher, chain)
        payload = record.payload if form == "stream_message" else _io_message(elements)
    except (ValueError, TypeError, LookupError) as problem:
        raise Rejected(f"not a stream message: {problem}") from problem
    size = len(payload) + len(topic) * 4 + PACKET_OVERHEAD_BYTES
    if size > max_bytes:
        raise Rejected(f"{size} bytes are more than the {max_bytes} that the broker takes")
    return _Item(topic, payload, size, record)


def _io_message(elements: list[Any]) -> bytes:
    """Of a message of version 32, which is what the agent writes."""
    encryption_type, content = elements[5], elements[7]
    if encryption_type != EncryptionType.NONE:
        raise Rejected("the content is encrypted; an encrypted stream is sent as stream_message")
    parsed = orjson.loads(content)
    if isinstance(parsed, dict) and isinstance(encoded := parsed.get("ioMessage"), str):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as problem:
            raise Rejected(f"ioMessage: {problem}") from problem
    return str(content).encode()


def _publication(items: list[_Item]) -> Publication:
    payload = items[0].payload if len(items) == 1 else b"[" + b",".join(item.payload for item in items) + b"]"
    return Publication(items[0].topic, payload, tuple(item.record for item in items))
