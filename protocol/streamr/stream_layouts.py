"""The layout of a stream message in each version, and writing by it.

Versions 28 and 29 are flat. Later ones hold the message id and the reference to the previous message as
arrays of their own:

    message_id     [streamId, streamPartition, timestamp, sequenceNumber, publisherId, msgChainId]
    prev_msg_ref   [timestamp, sequenceNumber] or null
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from protocol.streamr.stream_message import StreamMessage

_LEGACY: Final = (
    "version",
    "stream_id",
    "stream_partition",
    "timestamp",
    "ttl",
    "offset",
    "previous_offset",
    "message_type",
    "content",
)
_HEAD: Final = ("version", "message_id", "prev_msg_ref", "message_type")
_KINDS: Final = ("content_type", "encryption_type", "group_key_id")
_TAIL: Final = ("signature_type", "signature")

LAYOUTS: Final = {
    28: _LEGACY,
    29: (*_LEGACY, "signature_type", "publisher_id", "signature"),
    30: (*_HEAD, "content", *_TAIL),
    31: (*_HEAD, "encryption_type", "content", *_TAIL),
    32: (*_HEAD, *_KINDS, "content", "new_group_key", *_TAIL),
}
DRAFT_LAYOUT: Final = (*_HEAD, *_KINDS, "content", *_TAIL)
DRAFT_EXAMPLES_LAYOUT: Final = tuple(name for name in DRAFT_LAYOUT if name != "group_key_id")
"""The examples in the draft forget one element of its own layout."""

MESSAGE_ID_LAYOUT: Final = (
    "stream_id", "stream_partition", "timestamp", "sequence_number", "publisher_id", "msg_chain_id",
)  # fmt: skip


def stream_message_elements(message: "StreamMessage") -> list[Any]:
    """The message as the array to be written, in its own version."""
    if message.version == 32 and not message.draft:
        return _current_elements(message)
    layout = DRAFT_LAYOUT if message.draft else LAYOUTS[message.version]
    fields = _legacy_fields(message) if message.legacy else _fields(message)
    return [fields[name] for name in layout]


def _current_elements(message: "StreamMessage") -> list[Any]:
    """By hand what the table says, because every message that the agent sends is written here."""
    (
        message_id, content, previous, message_type, content_type, encryption_type, group_key_id,
        new_group_key, signature_type, signature, version, _, _,
    ) = message  # fmt: skip
    return [
        version,
        [*message_id],
        previous and [*previous],
        message_type,
        content_type,
        encryption_type,
        group_key_id,
        content,
        new_group_key and new_group_key.serialized,
        signature_type,
        signature,
    ]


def _fields(message: "StreamMessage") -> dict[str, Any]:
    previous = message.prev_msg_ref
    return {
        **message._asdict(),
        "message_id": [*message.message_id],
        "prev_msg_ref": previous and [*previous],
    }


def _legacy_fields(message: "StreamMessage") -> dict[str, Any]:
    legacy = message.legacy
    assert legacy is not None
    return {
        **message._asdict(),
        **message.message_id._asdict(),
        "publisher_id": message.message_id.publisher_id or None,
        "ttl": legacy.ttl,
        "offset": legacy.offset,
        "previous_offset": legacy.previous_offset,
    }
