"""The same signed text, cut into other fields: what an attacker can make of a message that was seen."""

import contextlib
from collections.abc import Iterator
from itertools import product

from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import MessageType, SignatureType, StreamMessage
from protocol.streamr.stream_message.signing import signed_payload

__all__ = ["moved_before_publisher", "moved_into_chain_id", "shown_as_legacy"]


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


def moved_before_publisher(message: StreamMessage) -> Iterator[StreamMessage]:
    """Every cut of stream id, partition and reference, and of the previous reference, but the publisher's own."""
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    text = f"{stream_id}{partition}{timestamp}{sequence}"
    prev = message.prev_msg_ref
    previous = list(_refs("" if prev is None else f"{prev.timestamp}{prev.sequence_number}"))
    digits = len(text) - len(text.rstrip("0123456789"))
    for stream_end in range(len(text) - digits, len(text) - 2):
        for partition_end in range(stream_end + 1, len(text) - 1):
            place = text[:stream_end], int(text[stream_end:partition_end])
            for ref, before in product(_refs(text[partition_end:]), previous):
                with contextlib.suppress(ValueError):  # no such id, or a reference that is not older than the message
                    assert ref is not None
                    message_id = MessageID(*place, *ref, publisher, chain)
                    yield from _if_other(message, message.replace(message_id=message_id, prev_msg_ref=before))


def shown_as_legacy(message: StreamMessage, digits: int) -> StreamMessage:
    """As a message of type ETH_LEGACY and no reading, with so many of the digits before the publisher as its time."""
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    text = f"{stream_id}{partition}{timestamp}{sequence}"
    message_id = MessageID(text[:-digits], 0, int(text[-digits:]), 0, publisher, chain)
    signed = signed_payload(message)
    content = signed[signed.index(f"{sequence}{publisher}{chain}") + len(f"{sequence}{publisher}") :]
    return message.replace(
        message_id=message_id,
        prev_msg_ref=None,
        content=content,
        message_type=MessageType.GROUP_KEY_REQUEST,
        signature_type=SignatureType.ETH_LEGACY,
    )


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
