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
from agent.wrap import chain_name
from protocol.streamr import EncryptionType

__all__ = ["PayloadForm", "Publication", "Unsendable", "check_topic_template", "pack", "topic_of"]

PayloadForm = Literal["stream_message", "io_message"]

MAX_TOPIC_BYTES = 65_535
MAX_REMEMBERED_TOPICS = 1_024
PACKED_BYTES = 128 * 1024  # more in one publication saves nothing
PACKET_OVERHEAD_BYTES = 64  # of a PUBLISH, beside topic and payload
_PLACEHOLDERS = {"stream": "s", "partition": "0", "publisher": "p", "chain": "c"}
_NOT_IN_TOPICS = frozenset("+#\0")
_topics_of_chains: dict[tuple[str, str], str] = {}  # by template and chain


class Publication(NamedTuple):
    topic: str
    payload: bytes
    records: tuple[Record, ...]


class Unsendable(NamedTuple):
    record: Record
    reason: str


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
    packed_bytes = min(PACKED_BYTES, max_bytes)
    waiting: list[Record] = []
    payloads: list[bytes] = []
    topic, size = "", 0
    for record in records:
        try:
            own_topic, payload = _topic_and_payload(record, template, form)
            own_size = _packet_size(own_topic, payload, max_bytes)
        except Rejected as problem:
            yield Unsendable(record, str(problem))
            continue
        is_full = len(waiting) >= max_messages or size + own_size > packed_bytes
        if waiting and (is_full or own_topic != topic):
            yield Publication(topic, _joined(payloads), tuple(waiting))
            waiting, payloads, size = [], [], 0
        topic = own_topic
        waiting.append(record)
        payloads.append(payload)
        size += own_size
    if waiting:
        yield Publication(topic, _joined(payloads), tuple(waiting))


def _packet_size(topic: str, payload: bytes, max_bytes: int) -> int:
    """An upper bound, in bytes. Raises: Rejected."""
    size = len(payload) + len(topic) * 4 + PACKET_OVERHEAD_BYTES
    if size > max_bytes:
        raise Rejected(f"{size} bytes are more than the {max_bytes} that the broker takes")
    return size


def _topic_and_payload(record: Record, template: str, form: PayloadForm) -> tuple[str, bytes]:
    """Raises: Rejected. All messages of one chain have one topic, so only the first of them is taken apart for it."""
    known = _topics_of_chains.get((template, record.chain))
    if known is not None and form == "stream_message":
        return known, record.payload
    try:
        elements = orjson.loads(record.payload)
        stream_id, partition, _, _, publisher, chain = elements[1]
        topic = topic_of(template, stream_id, partition, publisher, chain)
        payload = record.payload if form == "stream_message" else _io_message(elements)
    except (ValueError, TypeError, LookupError) as problem:
        raise Rejected(f"not a stream message: {problem}") from problem
    if record.chain == chain_name(stream_id, partition, chain):
        if len(_topics_of_chains) >= MAX_REMEMBERED_TOPICS:
            _topics_of_chains.clear()
        _topics_of_chains[template, record.chain] = topic
    return topic, payload


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


def _joined(payloads: list[bytes]) -> bytes:
    return payloads[0] if len(payloads) == 1 else b"[" + b",".join(payloads) + b"]"
