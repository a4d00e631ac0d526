"""Reads stream messages of every version.

A message of version 32 with all its elements, of the proper types, is read on a fast path, which nearly every message
takes. Other messages are read again, tolerantly and more slowly, element by element by the tables below, which report
every problem with its place.

Read, though never written: whole numbers as 2e12 or 0.0, codes by name, a version from 30 on as a string, content
that is JSON instead of a string of JSON, an empty value in place of null for the previous message and the new group
key, missing elements at the end. Refused, though some releases read it: a previous message that is not older, or that
has no sequence number; for both, peers disagree whether the signature is valid.
"""

from typing import Any, Final

import orjson

from protocol.errors import WireError
from protocol.streamr.checks import FieldError, UnknownKindError, refuse, shown, wire_error
from protocol.streamr.elements import (
    build,
    is_falsy,
    kind_reader,
    read_array,
    read_count,
    read_elements,
    read_message_ref,
)
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message.message import StreamMessage
from protocol.streamr.stream_message.parts import (
    DRAFT_EXAMPLES_LAYOUT,
    DRAFT_LAYOUT,
    LAYOUTS,
    LEGACY_VERSIONS,
    MESSAGE_ID_LAYOUT,
    MODERN_VERSIONS,
    STREAM_VERSIONS,
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
)

_new: Final = tuple.__new__


def parse_stream_message(text: str | bytes, *, draft: bool = False) -> StreamMessage:
    """Read one stream message of any version.

    With `draft`, forms that only the documents show are read too: version 32 with 10 or 9 elements and the types of
    its draft, and a new group key as an array. Otherwise they are refused, because no program ever sent them.

    Raises: `WireError`, with the problem and its place.
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
    """The stream message within another message: an array or, as newer peers also accept it, the text of one.

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
    """Read a message that needs no tolerance. Raises: KeyError, TypeError or ValueError for any other.

    This repeats the checks of the constructors: their calls would cost as much again as reading the JSON. A test
    compares the two.
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


def read_by_table(elements: Any, *, draft: bool, versions: frozenset[int]) -> StreamMessage:
    """Raises: `FieldError`, with its place."""
    elements = read_array("stream_message", elements)
    version = _read_version(elements, versions)
    layout, is_draft = _choose_layout(version, len(elements), draft=draft)
    readers = _READERS_OF_DOCUMENTS if draft and version == 32 else _READERS[version]
    fields = read_elements(elements, layout, readers, _OPTIONAL if version in MODERN_VERSIONS else frozenset())
    if len(elements) < len(layout) and type(elements[layout.index("content")]) is not str:
        raise FieldError("content", _CONTENT_OF_ANOTHER_LAYOUT, f"[{layout.index('content')}]")
    fields.update(version=version, draft=is_draft)
    if version in LEGACY_VERSIONS:
        fields = _modernised(fields, layout)
    return build(StreamMessage, fields, layout)


def _read_version(elements: list[Any], versions: frozenset[int]) -> int:
    if not elements:
        raise FieldError("version", "is missing", "[0]")
    version = elements[0]
    if type(version) is str and version in _VERSIONS_AS_TEXT:
        version = int(version)
    if type(version) not in (int, float) or version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise UnknownKindError("version", f"{shown(version)} is not one of {known}", "[0]")
    return int(version)


def _choose_layout(version: int, length: int, *, draft: bool) -> tuple[tuple[str, ...], bool]:
    if draft and version == 32 and length == len(DRAFT_LAYOUT):
        return DRAFT_LAYOUT, True
    if draft and version == 32 and length == len(DRAFT_EXAMPLES_LAYOUT):
        return DRAFT_EXAMPLES_LAYOUT, True
    return LAYOUTS[version], False


def _modernised(fields: dict[str, Any], layout: tuple[str, ...]) -> dict[str, Any]:
    """The fields of version 28 or 29 as those of a `StreamMessage`."""
    offsets: dict[str, Any] = {name: fields.pop(name) for name in ("ttl", "offset", "previous_offset")}
    legacy = build(LegacyOffsets, offsets, layout)
    identity: dict[str, Any] = {name: fields.pop(name) for name in MESSAGE_ID_LAYOUT if name in fields}
    return {**fields, "message_id": build(MessageID, identity, layout), "legacy": legacy}


def _read_message_id(element: Any) -> MessageID:
    fields = read_elements(read_array("message_id", element), MESSAGE_ID_LAYOUT, _COUNTS, frozenset())
    return build(MessageID, fields, MESSAGE_ID_LAYOUT)


def _read_message_id_30(element: Any) -> MessageID:
    """Version 30 may leave out or null what versions 28 and 29 did not have."""
    tail = frozenset(MESSAGE_ID_LAYOUT[3:])
    fields = read_elements(read_array("message_id", element), MESSAGE_ID_LAYOUT, _COUNTS, tail)
    present = {name: field for name, field in fields.items() if field is not None or name not in tail}
    return build(MessageID, present, MESSAGE_ID_LAYOUT)


def _read_previous(element: Any) -> MessageRef | None:
    return None if is_falsy(element) else read_message_ref(element)


def _read_previous_31(element: Any) -> MessageRef | None:
    """Some releases wrote [null,null] for a message that was converted from version 28 or 29."""
    return None if element == [None, None] else _read_previous(element)


def read_content(element: Any) -> str:
    """A string as it is; other JSON as its compact text, over which a signature may not be valid."""
    if type(element) is str:
        return element
    try:
        return orjson.dumps(element).decode()
    except orjson.JSONEncodeError as problem:
        raise FieldError("content", f"cannot be written as text: {problem}") from None


def _read_legacy_content(element: Any) -> str:
    if type(element) not in (str, list, dict):
        refuse("content", element, "a string, an array or an object")
    return read_content(element)


def _read_new_group_key(element: Any) -> EncryptedGroupKey | None:
    return None if is_falsy(element) else EncryptedGroupKey(element)


def _read_new_group_key_of_documents(element: Any) -> EncryptedGroupKey | None:
    """The documents say "GroupKey" and mean its array; real peers write the text of that array."""
    return _read_new_group_key(read_content(element) if type(element) is list else element)


def _read_legacy_type(element: Any) -> MessageType:
    if element != MessageType.MESSAGE:
        refuse("message_type", element, "27")
    return MessageType.MESSAGE


_CONTENT_OF_ANOTHER_LAYOUT: Final = (
    "must be a string where elements are missing at the end: this is another layout, perhaps that of a draft"
)
_VERSIONS_AS_TEXT: Final = frozenset(map(str, MODERN_VERSIONS))
_OPTIONAL: Final = frozenset({"new_group_key", "signature_type", "signature"})
_COUNTS: Final = dict.fromkeys(("stream_partition", "timestamp", "sequence_number"), read_count)
_READERS_32: Final = {
    "message_id": _read_message_id,
    "prev_msg_ref": _read_previous,
    "message_type": kind_reader("message_type", MessageType),
    "content_type": kind_reader("content_type", ContentType),
    "encryption_type": kind_reader("encryption_type", EncryptionType),
    "content": read_content,
    "new_group_key": _read_new_group_key,
    "signature_type": kind_reader("signature_type", SignatureType),
}
_READERS_OF_DOCUMENTS: Final = {**_READERS_32, "new_group_key": _read_new_group_key_of_documents}
_READERS_31: Final = {**_READERS_32, "prev_msg_ref": _read_previous_31}
_READERS_30: Final = {**_READERS_31, "message_id": _read_message_id_30}
_LEGACY_READERS: Final = {
    "stream_partition": lambda element: 0 if element is None else read_count(element),
    **dict.fromkeys(("timestamp", "ttl", "offset", "previous_offset"), read_count),
    "message_type": _read_legacy_type,
    "content": _read_legacy_content,
    "signature_type": lambda element: SignatureType.NONE if element is None else _READERS_32["signature_type"](element),
    "publisher_id": lambda element: "" if element is None else element,
}
_READERS: Final = {
    28: _LEGACY_READERS,
    29: _LEGACY_READERS,
    30: _READERS_30,
    31: _READERS_31,
    32: _READERS_32,
}
