"""Reads the contents of key exchange messages; `protocol/streamr/group_keys/messages.py` shows their layouts."""

from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any, Final

from protocol.errors import Unsupported
from protocol.streamr.checks import FieldError, field_names, refuse, wire_error
from protocol.streamr.elements import build, read_array, read_count, read_elements, read_members
from protocol.streamr.group_keys.messages import (
    DraftGroupKeyReset,
    DraftGroupKeyRotate,
    EncryptedKey,
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyMessage,
    GroupKeyRequest,
    GroupKeyResponse,
    KeyRange,
    TimedKey,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
    camel_case,
)
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import MessageType


def parse_group_key_message(message_type: MessageType, content: str | bytes, *, draft: bool = False) -> GroupKeyMessage:
    """Read the content of a key exchange message, decrypted where all of it was encrypted.

    An array is read as version 32 and an object as version 31, whatever the version of the message around it: real
    clients convert the one without the other.

    Raises: `WireError`, also where the message type is not one of key exchange.
    """
    parsed = decode_json(content)
    kinds = _OBJECTS if type(parsed) is dict else _DRAFT_ARRAYS if draft else _ARRAYS
    if message_type not in kinds:
        raise Unsupported(f"message type {int(message_type)} has no such content")
    kind = kinds[message_type]
    try:
        return _read_object(parsed, kind) if type(parsed) is dict else _read_array(parsed, kind)
    except FieldError as problem:
        raise wire_error(problem) from None


def _read_array(parsed: Any, kind: type[GroupKeyMessage]) -> GroupKeyMessage:
    elements, layout = read_array("content", parsed), field_names(kind)
    if kind is DraftGroupKeyReset and len(elements) == 2:
        elements = [None, *elements]  # as in the draft's example
    return build(kind, read_elements(elements, layout, _READERS, frozenset()), layout)


def _read_object(members: dict[str, Any], kind: type[GroupKeyMessage]) -> GroupKeyMessage:
    keys = {camel_case(name): name for name in field_names(kind)}
    optional = {field.name for field in fields_of(kind) if field.default is not MISSING}
    return build(kind, read_members(members, keys, _READERS, optional), keys)


def _read_texts(element: Any) -> tuple[Any, ...]:
    return tuple(read_array("group_key_ids", element))


def _read_keys(element: Any) -> tuple[EncryptedKey, ...]:
    """Pairs of id and ciphertext. The documents' examples show a single pair without its outer array."""
    keys = read_array("group_keys", element)
    if len(keys) == 2 and type(keys[0]) is str:
        return (_read_key(keys),)
    return tuple(_read_key(key, f"[{index}]") for index, key in enumerate(keys))


def _read_key(element: Any, place: str = "") -> EncryptedKey:
    if type(element) is not list or len(element) < 2 or type(element[0]) is not str or type(element[1]) is not str:
        raise FieldError("group_keys", "must be pairs of id and encrypted key", place)
    return EncryptedKey(element[0], element[1])


def _read_timed_keys(element: Any) -> tuple[TimedKey, ...]:
    return tuple(_read_timed_key(key, f"[{index}]") for index, key in enumerate(read_array("keys", element)))


def _read_timed_key(element: Any, place: str) -> TimedKey:
    if type(element) is not dict or type(element.get("groupKey")) is not str:
        raise FieldError("keys", "must be objects of groupKey and start", place)
    start = read_count(element.get("start"))
    if type(start) is not int or start < 0:
        raise FieldError("start", "must be a whole number, 0 or more", f"{place}.start")
    return TimedKey(element["groupKey"], start)


def _read_range(element: Any) -> KeyRange:
    if type(element) is not dict:
        refuse("range", element, "an object of start and end")
    return KeyRange(read_count(element.get("start")), read_count(element.get("end")))


_READERS: Final = {
    "group_key_ids": _read_texts,
    "group_keys": _read_keys,
    "keys": _read_timed_keys,
    "range": _read_range,
    "start": read_count,
}
_Kinds = dict[MessageType, type[GroupKeyMessage]]
_ARRAYS: Final[_Kinds] = {
    kind.message_type: kind for kind in (GroupKeyRequest, GroupKeyResponse, GroupKeyAnnounce, GroupKeyErrorResponse)
}
_DRAFT_ARRAYS: Final[_Kinds] = {
    **_ARRAYS,
    MessageType.GROUP_KEY_RESET: DraftGroupKeyReset,
    MessageType.GROUP_KEY_ROTATE: DraftGroupKeyRotate,
}
_OBJECTS: Final[_Kinds] = {
    kind.message_type: kind for kind in (TimedKeyRequest, TimedKeyResponse, TimedKeyReset, TimedKeyErrorResponse)
}
