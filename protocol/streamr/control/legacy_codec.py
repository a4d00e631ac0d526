"""Reading version 0 of the control layer, the legacy JSON API.

A request is an object, a response an array `[0, type, subId, payload]`. Keys that a message does not know are
ignored, and null stands for absent. A missing partition is 0. A publish request may hold its message as JSON
instead of the text of it, and its time as a number, a string of digits or a date of ISO 8601.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from protocol.streamr.checks import FieldError, UnknownKindError, refuse, shown
from protocol.streamr.control.layouts import LEGACY_PAYLOADS, LEGACY_REQUESTS, ControlType
from protocol.streamr.control.messages import (
    KINDS,
    ControlMessage,
    LegacyPublishRequest,
    LegacyResendRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from protocol.streamr.elements import build, kind_reader, read_count, read_members
from protocol.streamr.stream_codec import read_stream_message
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_parts import STREAM_VERSIONS, SignatureType
from protocol.streamr.stream_tables import read_content

_REQUESTS: Final[dict[str, type[ControlMessage]]] = {
    "publish": LegacyPublishRequest,
    "subscribe": SubscribeRequest,
    "unsubscribe": UnsubscribeRequest,
    "resend": LegacyResendRequest,
}
_REQUIRED: Final = frozenset({"stream_id", "content", "error_message"})
_MAX_TIME_CHARACTERS: Final = 40


def read_legacy_request(members: dict[str, Any]) -> ControlMessage:
    """Raises: `FieldError`."""
    version, kind = members.get("version"), members.get("type")
    if version not in (None, 0, "0"):
        raise UnknownKindError("version", f"{shown(version)} is not 0", ".version")
    if type(kind) is not str or kind not in _REQUESTS:
        raise UnknownKindError("type", f"{shown(kind)} is not one of {', '.join(_REQUESTS)}", ".type")
    return _read_object(members, _REQUESTS[kind], LEGACY_REQUESTS[kind])


def read_legacy_response(elements: list[Any], kind: int | None, *, draft: bool) -> ControlMessage:
    """Raises: `FieldError`."""
    if kind is None or not 0 <= kind <= ControlType.ERROR_RESPONSE:
        raise UnknownKindError("type", f"{shown(kind)} is not one of 0 to 7", "[1]")
    if len(elements) < 4:
        raise FieldError("payload", "is missing", "[3]")
    sub_id = elements[2] if kind == ControlType.UNICAST_MESSAGE and elements[2] is not None else ""
    try:
        payload = _read_payload(elements[3], ControlType(kind), draft=draft)
    except FieldError as problem:
        raise problem.within("[3]") from None
    if isinstance(payload, ControlMessage):
        return payload
    fields = {"version": 0, "request_id": sub_id, "stream_message": payload}
    return build(KINDS[ControlType(kind)], fields, ("version", "type", "request_id"))


def _read_payload(payload: Any, kind: ControlType, *, draft: bool) -> ControlMessage | StreamMessage:
    if kind not in LEGACY_PAYLOADS:
        return read_stream_message(payload, draft=draft, versions=STREAM_VERSIONS)
    if type(payload) is not dict:
        raise FieldError("payload", f"must be an object, not {shown(payload)}")
    return _read_object(payload, KINDS[kind], LEGACY_PAYLOADS[kind])


def _read_object(members: Mapping[str, Any], kind: type[ControlMessage], keys: Mapping[str, str]) -> ControlMessage:
    optional = frozenset(keys.values()) - _REQUIRED
    fields = read_members(members, keys, _READERS, optional)
    return build(kind, {**fields, "version": 0}, keys)


def _read_time(element: Any) -> Any:
    if type(element) is not str or len(element) > _MAX_TIME_CHARACTERS:
        return read_count(element)
    if element.isascii() and element.isdecimal():
        return int(element)
    try:
        moment = datetime.fromisoformat(element)
    except ValueError:
        refuse("timestamp", element, "a time in milliseconds or of ISO 8601")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


_READERS: Final = {
    "content": read_content,
    "timestamp": _read_time,
    "signature_type": kind_reader("signature_type", SignatureType),
    **dict.fromkeys(("stream_partition", "resend_last", "resend_from", "resend_to", "resend_from_time"), read_count),
}
