"""Reads control messages of every version.

The two messages that exist for every message of a stream, publish request and broadcast, are read on a fast path if
they are of version 2 and need no tolerance. All others, and invalid ones, are read by the tables.

A missing partition, or null, is 0, as in all documents, although releases from 5 on refuse it; so is a missing sequence
number in the reference of a request, as in all releases. Other forms that no release ever accepted, but the documents
allow or show, are refused without `documents`: a resend response without a request, an empty request id where one is
required, version 2 without any request id.

Version 0 is the legacy JSON API: a request is an object, a response an array `[0, type, subId, payload]`. Unknown keys
are ignored, and null means absent. A missing partition is 0. A publish request may hold its message as JSON instead of
its text, and its time as a number, a string of digits or a date of ISO 8601.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from protocol.streamr.checks import FieldError, UnknownKindError, refuse, shown, wire_error
from protocol.streamr.control.layouts import (
    DIRECTED_PROXY_LAYOUT,
    LAYOUT_1,
    LAYOUT_2,
    LEGACY_PAYLOADS,
    LEGACY_REQUESTS,
    NEEDS_REQUEST_ID,
    RESEND_FROM_WITH_CHAIN,
    ControlType,
)
from protocol.streamr.control.messages import (
    KINDS,
    BroadcastMessage,
    ControlMessage,
    LegacyPublishRequest,
    LegacyResendRequest,
    PublishRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from protocol.streamr.elements import (
    Reader,
    build,
    kind_reader,
    read_code,
    read_count,
    read_elements,
    read_members,
    read_message_ref,
)
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import SignatureType, StreamMessage
from protocol.streamr.stream_message.codec import read_content, read_stream_message
from protocol.streamr.stream_message.parts import MODERN_VERSIONS, STREAM_VERSIONS

_OPTIONAL: Final = frozenset({"session_token", "publisher_id", "msg_chain_id"})
_OPTIONAL_OR_PARTITION: Final = _OPTIONAL | {"stream_partition"}
_PROXYING: Final = frozenset({ControlType.PROXY_CONNECTION_REQUEST, ControlType.PROXY_CONNECTION_RESPONSE})
"""No document describes these; their partition is not optional."""
_LAST_OF_MILLISECOND: Final = 2**53 - 1  # no sequence number that can be written is larger


def parse_control_message(text: str | bytes, *, documents: bool = False) -> ControlMessage:
    """Read one control message of version 0, 1 or 2.

    With `documents`, forms that only the documents show are read too, also in the stream message within.

    Raises: `WireError`, with the problem and its place.
    """
    parsed = decode_json(text)
    try:
        return read_control_message(parsed, documents=documents)
    except FieldError as problem:
        raise wire_error(problem) from None


def read_control_message(parsed: Any, *, documents: bool) -> ControlMessage:
    """The message in decoded JSON. Raises: `FieldError`."""
    if not documents and (frequent := _read_frequent(parsed)) is not None:
        return frequent
    is_object = type(parsed) is dict
    message = read_legacy_request(parsed) if is_object else _read_array(parsed, documents=documents)
    if message.type in NEEDS_REQUEST_ID and not message.request_id and not documents:
        raise FieldError("request_id", f"is empty or missing; {type(message).__name__} requires one")
    return message


def _read_frequent(parsed: Any) -> PublishRequest | BroadcastMessage | None:
    """The message on the fast path; None if the tables must read it, or report its problem."""
    try:
        match parsed:
            case [2, 8, request_id, list(elements), session_token]:
                message = read_stream_message(elements, draft=False, versions=MODERN_VERSIONS)
                return PublishRequest(request_id=request_id, stream_message=message, session_token=session_token)
            case [2, 0, request_id, list(elements)] if parsed[1] is not False:
                message = read_stream_message(elements, draft=False, versions=MODERN_VERSIONS)
                return BroadcastMessage(request_id=request_id, stream_message=message)
    except FieldError:
        return None
    return None


def _read_array(parsed: Any, *, documents: bool) -> ControlMessage:
    if type(parsed) is not list:
        raise FieldError("control_message", f"must be an array or an object, not {shown(parsed)}")
    version = read_count(parsed[0]) if parsed else None
    kind = read_code(parsed, 1)
    if type(version) is not int or version not in (0, 1, 2):
        raise UnknownKindError("version", f"{shown(version)} is not one of 0, 1, 2", "[0]")
    if version == 0:
        return read_legacy_response(parsed, kind, draft=documents)
    layouts = LAYOUT_1 if version == 1 else LAYOUT_2
    if kind not in layouts:
        raise UnknownKindError("type", f"{shown(kind)} is not one of 0 to 15", "[1]")
    kind = ControlType(kind)
    try:
        return _read_layout(parsed, version, kind, _choose_layout(version, kind, len(parsed)), documents=documents)
    except FieldError as problem:
        if documents and version == 2 and kind is ControlType.SUBSCRIBE_REQUEST:
            return _read_without_request_id(parsed, problem)
        raise


def _read_without_request_id(elements: list[Any], problem: FieldError) -> ControlMessage:
    """Read an example of two documents: a subscribe request of version 1 under the number of version 2."""
    kind = ControlType.SUBSCRIBE_REQUEST
    try:
        return _read_layout(elements, 2, kind, LAYOUT_1[kind], documents=True)
    except FieldError:
        raise problem from None


def _read_layout(
    elements: list[Any], version: int, kind: ControlType, names: tuple[str, ...], *, documents: bool
) -> ControlMessage:
    layout = ("version", "type", *names)
    optional = _OPTIONAL if kind in _PROXYING else _OPTIONAL_OR_PARTITION
    fields = read_elements(elements, layout, _READERS[version, documents], optional)
    del fields["type"]
    if kind not in _PROXYING and fields.get("stream_partition", 0) is None:
        fields["stream_partition"] = 0
    return build(KINDS[kind], {**fields, "version": version}, layout)


def _choose_layout(version: int, kind: ControlType, length: int) -> tuple[str, ...]:
    if version == 1:
        return LAYOUT_1[kind]
    if kind is ControlType.RESEND_FROM_REQUEST and length == 2 + len(RESEND_FROM_WITH_CHAIN):
        return RESEND_FROM_WITH_CHAIN
    if kind in DIRECTED_PROXY_LAYOUT and length >= 2 + len(DIRECTED_PROXY_LAYOUT[kind]):
        return DIRECTED_PROXY_LAYOUT[kind]
    return LAYOUT_2[kind]


def _readers(version: int, *, documents: bool) -> dict[str, Reader]:
    versions = STREAM_VERSIONS if version == 1 else MODERN_VERSIONS
    return {
        "stream_partition": read_count,
        "number_last": read_count,
        "from_msg_ref": lambda element: read_message_ref(element, without_sequence=0),
        "to_msg_ref": lambda element: read_message_ref(element, without_sequence=_LAST_OF_MILLISECOND),
        "stream_message": lambda element: read_stream_message(element, draft=documents, versions=versions),
    }


_READERS: Final = {
    (version, documents): _readers(version, documents=documents) for version in (1, 2) for documents in (False, True)
}


_LEGACY_KINDS: Final[dict[str, type[ControlMessage]]] = {
    "publish": LegacyPublishRequest,
    "subscribe": SubscribeRequest,
    "unsubscribe": UnsubscribeRequest,
    "resend": LegacyResendRequest,
}
_LEGACY_REQUIRED: Final = frozenset({"stream_id", "content", "error_message"})
_MAX_TIME_CHARACTERS: Final = 40


def read_legacy_request(members: dict[str, Any]) -> ControlMessage:
    """Raises: `FieldError`."""
    version, kind = members.get("version"), members.get("type")
    if version not in (None, 0, "0"):
        raise UnknownKindError("version", f"{shown(version)} is not 0", ".version")
    if type(kind) is not str or kind not in _LEGACY_KINDS:
        raise UnknownKindError("type", f"{shown(kind)} is not one of {', '.join(_LEGACY_KINDS)}", ".type")
    return _read_object(members, _LEGACY_KINDS[kind], LEGACY_REQUESTS[kind])


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
    optional = frozenset(keys.values()) - _LEGACY_REQUIRED
    fields = read_members(members, keys, _LEGACY_READERS, optional)
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


_LEGACY_READERS: Final = {
    "content": read_content,
    "timestamp": _read_time,
    "signature_type": kind_reader("signature_type", SignatureType),
    **dict.fromkeys(("stream_partition", "resend_last", "resend_from", "resend_to", "resend_from_time"), read_count),
}
