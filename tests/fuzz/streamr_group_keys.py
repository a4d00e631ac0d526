"""Fuzz the contents of key exchange messages; the first byte chooses the message type and the draft."""

from protocol.errors import WireError
from protocol.streamr.group_keys.codec import parse_group_key_message
from protocol.streamr.stream_message import MessageType, parse_stream_message
from tests.support.streamr_vectors import load_vectors

TYPES = list(MessageType)
_MESSAGES = [parse_stream_message(vector["serialized"]) for vector in load_vectors("messages_stream")]
SEEDS = [
    bytes([TYPES.index(message.message_type)]) + message.content.encode()
    for message in _MESSAGES
    if message.message_type is not MessageType.MESSAGE
]


def fuzz_one(data: bytes) -> None:
    choice, content = data[0] if data else 0, data[1:]
    message_type, draft = TYPES[choice % len(TYPES)], choice >= 128
    try:
        message = parse_group_key_message(message_type, content, draft=draft)
        text = message.serialize()
    except WireError:
        return
    assert parse_group_key_message(message_type, text, draft=draft) == message
