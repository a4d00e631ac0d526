"""Reading control messages of every version.

The two that there are for every message of a stream, a publish request and a broadcast, are read in one go where they
are of version 2 and need no tolerance. All others, and whatever is wrong with these, are read by the tables.

Without `documents`, what no release ever read is refused: a missing partition in version 2, a resend response
that belongs to no request, an empty request id where one is needed. The documents allow or show these.
"""

from typing import Any, Final

from protocol.streamr.checks import FieldError, UnknownKindError, shown, wire_error
from protocol.streamr.control.layouts import (
    DIRECTED_PROXY_LAYOUT,
    LAYOUT_1,
    LAYOUT_2,
    NEEDS_REQUEST_ID,
    RESEND_FROM_WITH_CHAIN,
    ControlType,
)
from protocol.streamr.control.legacy_codec import read_legacy_request, read_legacy_response
from protocol.streamr.control.messages import KINDS, BroadcastMessage, ControlMessage, PublishRequest
from protocol.streamr.elements import (
    Reader,
    build,
    read_code,
    read_count,
    read_elements,
    read_message_ref,
)
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_codec import read_stream_message
from protocol.streamr.stream_parts import MODERN_VERSIONS, STREAM_VERSIONS

_OPTIONAL: Final = frozenset({"session_token", "publisher_id", "msg_chain_id"})
_OPTIONAL_OR_PARTITION: Final = _OPTIONAL | {"stream_partition"}
_PARTITION_MAY_END_IT: Final = frozenset(
    {
        ControlType.SUBSCRIBE_RESPONSE,
        ControlType.UNSUBSCRIBE_RESPONSE,
        ControlType.SUBSCRIBE_REQUEST,
        ControlType.UNSUBSCRIBE_REQUEST,
    }
)
"""The messages of version 1 that early releases also sent without their last elements, for partition 0."""


def parse_control_message(text: str | bytes, *, documents: bool = False) -> ControlMessage:
    """Read one control message of version 0, 1 or 2.

    With `documents`, what only the documents show is read too, in the stream message within as well.

    Raises: `WireError`, which says what is wrong and where.
    """
    parsed = decode_json(text)
    try:
        return read_control_message(parsed, documents=documents)
    except FieldError as problem:
        raise wire_error(problem) from None


def read_control_message(parsed: Any, *, documents: bool) -> ControlMessage:
    """The message in JSON that was read already. Raises: `FieldError`."""
    if not documents and (frequent := _read_frequent(parsed)) is not None:
        return frequent
    is_object = type(parsed) is dict
    message = read_legacy_request(parsed) if is_object else _read_array(parsed, documents=documents)
    if message.type in NEEDS_REQUEST_ID and not message.request_id and not documents:
        raise FieldError("request_id", f"is empty or missing; {type(message).__name__} needs one")
    return message


def _read_frequent(parsed: Any) -> PublishRequest | BroadcastMessage | None:
    """None where the tables must read it, or say what is wrong and where."""
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
    return _read_layout(parsed, version, ControlType(kind), documents=documents)


def _read_layout(elements: list[Any], version: int, kind: ControlType, *, documents: bool) -> ControlMessage:
    layout = ("version", "type", *_choose_layout(version, kind, len(elements)))
    may_lack_partition = documents or (version == 1 and kind in _PARTITION_MAY_END_IT)
    optional = _OPTIONAL_OR_PARTITION if may_lack_partition else _OPTIONAL
    fields = read_elements(elements, layout, _READERS[version, documents], optional)
    del fields["type"]
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
        "stream_partition": _read_optional_partition if documents else read_count,
        "number_last": read_count,
        "from_msg_ref": read_message_ref,
        "to_msg_ref": read_message_ref,
        "stream_message": lambda element: read_stream_message(element, draft=documents, versions=versions),
    }


def _read_optional_partition(element: Any) -> Any:
    return 0 if element is None else read_count(element)


_READERS: Final = {
    (version, documents): _readers(version, documents=documents) for version in (1, 2) for documents in (False, True)
}
