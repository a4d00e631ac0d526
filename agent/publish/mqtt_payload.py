"""Builds MQTT publications: topic and payload. Pure functions and values.

| payload | one publication holds |
|---|---|
| `stream_message` | the serialised StreamMessage, byte for byte as it was signed; or a JSON array of several |
| `io_message` | one reading: its ioMessage in the binary embodiment, or in JSON where the stream's content is JSON |

A reader distinguishes one StreamMessage from several by the first element: a number for one, an array for several. A
pack of n readings is one StreamMessage, and n publications of ioMessages.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from agent.errors import Rejected
from agent.journal import Record
from agent.pack.wrap import chain_name
from agent.publish.contract import RejectedRun, run_of
from protocol.errors import WireError
from protocol.iomessage.content import JSON_PACK, decode_binary_content, decode_content
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType
from protocol.streamr.stream_message.peek import peek_content, peek_message_id
from runtime.settings import placeholder_problem

PayloadForm = Literal["stream_message", "io_message"]

MAX_TOPIC_BYTES = 65_535
MAX_CACHED_TOPICS = 1_024
PACKED_BYTES = 128 * 1024  # larger publications gain nothing
PACKET_OVERHEAD_BYTES = 64  # of a PUBLISH, beside topic and payload
_PLACEHOLDERS = {"stream": "s", "partition": "0", "publisher": "p", "chain": "c"}
_NOT_IN_TOPICS = frozenset("+#\0")
_topics_of_chains: dict[tuple[str, str], str] = {}  # by template and chain


class Publication(NamedTuple):
    topic: str
    payload: bytes
    records: Sequence[Record]
    part: int = 0  # its number among the publications that hold these records together …
    parts: int = 1  # … and how many they are


def check_topic_template(template: str) -> None:
    """Raises ValueError if the template is not valid; the text names what it may contain."""
    if placeholder_problem(template, _PLACEHOLDERS):
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise ValueError(f"topic {template!r:.80} may contain only {known} in braces")
    topic = template.format(**_PLACEHOLDERS)
    if not topic or _NOT_IN_TOPICS & set(topic):
        raise ValueError(f"topic {template!r:.80} is empty or contains +, # or NUL")


@lru_cache(maxsize=MAX_CACHED_TOPICS)
def topic_of(template: str, stream_id: str, partition: int, publisher: str, chain: str) -> str:
    """The topic of a chain. Raises: Rejected if it is not a valid MQTT topic."""
    topic = template.format(stream=stream_id, partition=partition, publisher=publisher, chain=chain)
    if _NOT_IN_TOPICS & set(topic) or len(topic.encode()) > MAX_TOPIC_BYTES:
        raise Rejected(f"{topic[:100]!r} is not an MQTT topic")
    return topic


def pack(
    records: Sequence[Record], template: str, form: PayloadForm, *, max_messages: int, max_bytes: int
) -> Iterator[Publication | RejectedRun]:
    """Publications of consecutive records of a lane with the same topic, in order; records that cannot be sent as runs.

    `max_bytes` is the largest packet that the broker accepts.
    """
    for (_, topic), neighbours in groupby(records, lambda record: (record.lane, _topic_or_problem(record, template))):
        if isinstance(topic, Rejected):
            yield RejectedRun(*run_of(list(neighbours)), str(topic))
        elif form == "stream_message":
            yield from _packed(topic, list(neighbours), max_messages, max_bytes)
        else:
            for record in neighbours:
                yield from _io_publications(topic, record, max_bytes)


def _packed(
    topic: str, records: Sequence[Record], max_messages: int, max_bytes: int
) -> Iterator[Publication | RejectedRun]:
    """As many records in one publication as fit; one that is too large is rejected alone."""
    payloads = [record.payload for record in records]
    ends = list(accumulate([len(payload) + 1 for payload in payloads], initial=0))  # a bracket or comma before each …
    packed_bytes = min(PACKED_BYTES, max_bytes) - _overhead_bytes(topic) - 1  # … and one bracket at the end
    start = 0
    while start < len(records):
        fitting = bisect_right(ends, ends[start] + packed_bytes) - 1
        end = max(start + 1, min(start + max_messages, fitting))
        yield _publication(topic, _joined(payloads[start:end]), records[start:end], max_bytes)
        start = end


def _io_publications(topic: str, record: Record, max_bytes: int) -> Sequence[Publication | RejectedRun]:
    """One for each reading; all of them, or one refusal of the record."""
    try:
        payloads = _io_messages(record.payload)
    except Rejected as problem:
        return [RejectedRun(*run_of([record]), str(problem))]
    largest = _publication(topic, max(payloads, key=len), [record], max_bytes)
    if isinstance(largest, RejectedRun):
        return [largest]
    return [Publication(topic, each, [record], part, len(payloads)) for part, each in enumerate(payloads)]


def _publication(topic: str, payload: bytes, records: Sequence[Record], max_bytes: int) -> Publication | RejectedRun:
    size = len(payload) + _overhead_bytes(topic)
    if size > max_bytes:
        return RejectedRun(*run_of(records), f"{size} bytes exceed the broker's limit of {max_bytes}")
    return Publication(topic, payload, records)


def _overhead_bytes(topic: str) -> int:
    """An upper bound of the size of a packet without its payload."""
    return len(topic) * 4 + PACKET_OVERHEAD_BYTES


def _topic_or_problem(record: Record, template: str) -> str | Rejected:
    """All messages of one chain have the same topic, so only the first of them is parsed."""
    known = _topics_of_chains.get((template, record.chain))
    if known is not None:
        return known
    try:
        stream_id, partition, _, _, publisher, chain = _message_id(record)
        topic = topic_of(template, stream_id, partition, publisher, chain)
    except Rejected as problem:
        return problem
    if record.chain == chain_name(stream_id, partition, chain):
        if len(_topics_of_chains) >= MAX_CACHED_TOPICS:
            _topics_of_chains.clear()
        _topics_of_chains[template, record.chain] = topic
    return topic


def _message_id(record: Record) -> MessageID:
    message_id = peek_message_id(record.payload)
    if message_id is None:
        raise Rejected("not a stream message of version 30 to 32")
    return message_id


def _io_messages(payload: bytes) -> list[bytes]:
    """The ioMessages in a message of version 32, the one that the agent writes. Raises: Rejected."""
    peeked = peek_content(payload)
    if peeked is None:
        raise Rejected("contains no ioMessage: not a stream message of version 32")
    if peeked.encryption_type != EncryptionType.NONE:
        raise Rejected('the content is encrypted; set payload = "stream_message" for encrypted streams')
    try:
        return decode_binary_content(peeked.content) or _json_messages(peeked.content)
    except WireError as problem:
        raise Rejected(f"contains no ioMessage: {problem}") from problem


def _json_messages(content: str) -> list[bytes]:
    """Raises: WireError."""
    if content.startswith(JSON_PACK[0]):
        return [message.to_json().encode() for message in decode_content(content)]
    return [content.encode()]


def _joined(payloads: Sequence[bytes]) -> bytes:
    return payloads[0] if len(payloads) == 1 else b"[" + b",".join(payloads) + b"]"
