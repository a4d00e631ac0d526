"""The same signed text, cut into other fields: what anyone can make of a message that they have seen."""

import contextlib
from collections.abc import Iterator

from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import signed_payload

__all__ = ["moved_into_chain_id", "other_times"]


def moved_into_chain_id(message: StreamMessage) -> Iterator[StreamMessage]:
    """Every cut between chain id and previous reference but the publisher's own."""
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    prev = message.prev_msg_ref
    text = chain + ("" if prev is None else f"{prev.timestamp}{prev.sequence_number}")
    for end in range(len(text) + 1):
        for ref in _refs(text[end:]):
            with contextlib.suppress(ValueError):  # a reference that is not older than the message
                message_id = MessageID(stream_id, partition, timestamp, sequence, publisher, text[:end])
                yield from _if_other(message, message.replace(message_id=message_id, prev_msg_ref=ref))


def other_times(message: StreamMessage) -> Iterator[StreamMessage]:
    """Every cut between partition, timestamp and sequence number but the publisher's own."""
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    text = f"{partition}{timestamp}{sequence}"
    for first in range(1, len(text) - 1):
        for ref in _refs(text[first:]):
            with contextlib.suppress(ValueError):
                assert ref is not None
                message_id = MessageID(stream_id, int(text[:first]), *ref, publisher, chain)
                yield from _if_other(message, message.replace(message_id=message_id))


def _refs(digits: str) -> Iterator[MessageRef | None]:
    if not digits:
        yield None
    if digits.isdecimal():
        for cut in range(1, len(digits)):
            with contextlib.suppress(ValueError):
                yield MessageRef(int(digits[:cut]), int(digits[cut:]))


def _if_other(message: StreamMessage, cut: StreamMessage) -> Iterator[StreamMessage]:
    if cut != message and signed_payload(cut) == signed_payload(message):
        yield cut
