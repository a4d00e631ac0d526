"""Reading stream messages of every version.

A message of version 32 with all its elements, of the types they should have, is read in one go; that path is as short
as it can be, because every message of the network takes it. Whatever it does not take is read again, tolerantly and
slowly, by the tables of `stream_tables`, which either make sense of it or say what is wrong and where.
"""

from typing import Any, Final

from protocol.errors import WireError
from protocol.streamr.checks import FieldError, wire_error
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_parts import (
    STREAM_VERSIONS,
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    MessageType,
    SignatureType,
)
from protocol.streamr.stream_tables import read_by_table

_new: Final = tuple.__new__


def parse_stream_message(text: str | bytes, *, draft: bool = False) -> StreamMessage:
    """Read one stream message of any version.

    With `draft`, what only the documents show is read too: version 32 with 10 or 9 elements and the types of
    its draft, and a new group key as an array. Without, it is refused, because nobody ever sent such a thing.

    Raises: `WireError`, which says what is wrong and where.
    """
    elements = decode_json(text)
    try:
        return _read_complete(elements)
    except (KeyError, TypeError, ValueError):
        return _read_tolerantly(elements, draft=draft)


def _read_tolerantly(elements: Any, *, draft: bool) -> StreamMessage:
    try:
        return read_by_table(elements, draft=draft, versions=STREAM_VERSIONS)
    except FieldError as problem:
        raise wire_error(problem) from None


def read_stream_message(element: Any, *, draft: bool, versions: frozenset[int]) -> StreamMessage:
    """The stream message within another message: an array or, as newer peers also take it, the text of one.

    Raises: `FieldError`, with the place inside.
    """
    if type(element) is str:
        element = _decode_nested(element)
    try:
        return _read_complete(element)
    except (KeyError, TypeError, ValueError):
        return read_by_table(element, draft=draft, versions=versions)


def _decode_nested(text: str) -> Any:
    try:
        return decode_json(text)
    except WireError as problem:
        raise FieldError("stream_message", str(problem)) from None


_MESSAGE_TYPES: Final = {int(kind): kind for kind in MessageType if kind is not MessageType.GROUP_KEY_ROTATE}
_CONTENT_TYPES: Final = {int(kind): kind for kind in ContentType}
_ENCRYPTION_TYPES: Final = {int(kind): kind for kind in (EncryptionType.NONE, EncryptionType.RSA, EncryptionType.AES)}
_SIGNATURE_TYPES: Final = {int(kind): kind for kind in SignatureType}


def _read_complete(elements: Any) -> StreamMessage:
    """Read a message that needs no tolerance; on anything else, raise something.

    This repeats what the constructors check: their calls would cost as much again as reading the JSON. A test
    holds the two against each other.
    """
    (
        version, message_id, previous, message_type, content_type, encryption_type, group_key_id, content,
        new_group_key, signature_type, signature,
    ) = elements  # fmt: skip
    if (
        version != 32
        or type(content) is not str
        or not content
        or (group_key_id is not None and type(group_key_id) is not str)
        or (signature is not None and type(signature) is not str)
        or content_type is False
        or type(encryption_type) is bool
        or type(signature_type) is bool
    ):
        raise ValueError
    stream_id, stream_partition, timestamp, sequence_number, publisher_id, msg_chain_id = message_id
    if (
        type(stream_id) is not str
        or not stream_id
        or type(stream_partition) is not int
        or stream_partition < 0
        or type(timestamp) is not int
        or timestamp < 0
        or type(sequence_number) is not int
        or sequence_number < 0
        or type(publisher_id) is not str
        or type(msg_chain_id) is not str
    ):
        raise ValueError
    if previous is not None:
        previous = MessageRef(*previous)
        if previous >= (timestamp, sequence_number):
            raise ValueError
    fields = (
        _new(MessageID, message_id),
        content,
        previous,
        _MESSAGE_TYPES[message_type],
        _CONTENT_TYPES[content_type],
        _ENCRYPTION_TYPES[encryption_type],
        group_key_id,
        new_group_key if new_group_key is None else EncryptedGroupKey(new_group_key),
        _SIGNATURE_TYPES[signature_type],
        signature,
        32,
        False,
        None,
    )
    return _new(StreamMessage, fields)
