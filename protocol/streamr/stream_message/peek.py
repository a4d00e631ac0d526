"""Reads single fields of a stream message from its text without building the message.

Each function gives the value that `parse_stream_message` would give for the same text, or None if the text is not of
that form or not valid; the general reader then reports the problem.
"""

from typing import Final, NamedTuple

import orjson

from protocol.streamr.ids import MessageID

_FIELD_TYPES: Final = (str, int, int, int, str, str)
_ELEMENTS: Final = 11  # of version 32
_new: Final = tuple.__new__


class PeekedContent(NamedTuple):
    encryption_type: int
    content: str


def peek_message_id(text: str | bytes) -> MessageID | None:
    """The id of a message of version 30 to 32."""
    match _loads(text):
        case [30 | 31 | 32, message_id, *_]:
            return message_id_of(message_id)
    return None


def peek_content(text: str | bytes) -> PeekedContent | None:
    """The content of a message of version 32, and how it is encrypted."""
    elements = _loads(text)
    if type(elements) is not list or len(elements) != _ELEMENTS or elements[0] != 32:
        return None
    encryption_type, content = elements[5], elements[7]
    if type(encryption_type) is not int or type(content) is not str:
        return None
    return PeekedContent(encryption_type, content)


def text_is_of_version(text: str, version: int) -> bool:
    """Whether a text that was written without white space, as all stored texts are, is of this version."""
    return text.startswith(f"[{version},")


def message_id_of(elements: object) -> MessageID | None:
    """The id in a message, from its decoded JSON. Pattern matching would take five times as long."""
    if type(elements) is not list or tuple(map(type, elements)) != _FIELD_TYPES:
        return None
    stream_id, partition, timestamp, sequence_number, _, _ = elements
    if not stream_id or partition < 0 or timestamp < 0 or sequence_number < 0:
        return None
    return _new(MessageID, elements)


def _loads(text: str | bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
