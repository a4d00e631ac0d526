"""StreamMessages: the value, and its text in every version. `signing` and `chain_writer` sign it."""

from protocol.streamr.stream_message.codec import parse_stream_message
from protocol.streamr.stream_message.message import StreamMessage
from protocol.streamr.stream_message.parts import (
    LATEST_STREAM_VERSION,
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
)

__all__ = [
    "LATEST_STREAM_VERSION",
    "ContentType",
    "EncryptedGroupKey",
    "EncryptionType",
    "LegacyOffsets",
    "MessageType",
    "SignatureType",
    "StreamMessage",
    "parse_stream_message",
]
