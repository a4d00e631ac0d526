"""The Streamr protocol: every message of its stream, control, network and tracker layers as values."""

from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
from protocol.streamr.stream_codec import parse_stream_message
from protocol.streamr.stream_message import (
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    StreamMessage,
)

__all__ = [
    "ContentType",
    "EncryptedGroupKey",
    "EncryptionType",
    "LegacyOffsets",
    "MessageID",
    "MessageRef",
    "MessageType",
    "SignatureType",
    "StreamMessage",
    "next_message_ref",
    "parse_stream_message",
]
