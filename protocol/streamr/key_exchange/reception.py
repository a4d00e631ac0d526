"""What either side checks before it looks at a key exchange message."""

from typing import NamedTuple

from protocol.errors import WireError
from protocol.streamr.group_key_codec import parse_group_key_message
from protocol.streamr.group_key_messages import GroupKeyMessage
from protocol.streamr.key_exchange.exchange_streams import key_exchange_recipient
from protocol.streamr.signing import verify
from protocol.streamr.stream_message import StreamMessage

__all__ = ["Ignored", "open_envelope"]


class Ignored(NamedTuple):
    """The message changes nothing and gets no answer."""

    reason: str


def open_envelope(message: StreamMessage, address: str) -> GroupKeyMessage | Ignored:
    """The content of a message for this address, if its sender really signed it."""
    if key_exchange_recipient(message.message_id.stream_id) != address:
        return Ignored("the message is not on our key exchange stream")
    if message.message_id.publisher_id.lower() == address:
        return Ignored("the message is our own")
    verdict = verify(message)
    if not verdict:
        return Ignored(f"signature: {verdict}")
    try:
        return parse_group_key_message(message.message_type, message.content)
    except WireError as problem:
        return Ignored(f"content: {problem}")
