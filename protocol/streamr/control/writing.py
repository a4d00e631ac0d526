"""Writing control messages: arrays in versions 1 and 2, objects and arrays in version 0."""

from typing import TYPE_CHECKING, Any

from protocol.errors import Unsupported
from protocol.streamr.control.layouts import (
    DIRECTED_PROXY_LAYOUT,
    LAYOUT_1,
    LAYOUT_2,
    LEGACY_PAYLOADS,
    LEGACY_REQUEST_NAMES,
    LEGACY_REQUESTS,
    NEEDS_REQUEST_ID,
    ControlType,
)
from protocol.streamr.ids import MessageRef
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message import StreamMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.streamr.control.messages import ControlMessage


def serialize_control_message(message: "ControlMessage", version: int, stream_version: int | None) -> str:
    """Raises: `Unsupported` where the version cannot hold the message."""
    if message.type in NEEDS_REQUEST_ID and not message.request_id:
        raise Unsupported(f"{type(message).__name__} cannot be written: its request_id is empty")
    if version == 0:
        return encode_json(_legacy_json(message, stream_version))
    layout = _layout(message, version)
    fields = [_element(getattr(message, name), stream_version) for name in layout]
    return encode_json([version, message.type, *fields])


def _layout(message: "ControlMessage", version: int) -> tuple[str, ...]:
    layouts: Mapping[Any, tuple[str, ...]] = {1: LAYOUT_1, 2: LAYOUT_2}.get(version, {})
    if version == 2 and getattr(message, "direction", None) is not None:
        layouts = DIRECTED_PROXY_LAYOUT
    if message.type not in layouts:
        raise _cannot_write(message, version)
    return layouts[message.type]


def _element(field: Any, stream_version: int | None) -> Any:
    match field:
        case StreamMessage():
            return field.elements(stream_version)
        case MessageRef():
            return [*field]
    return field


def _legacy_json(message: "ControlMessage", stream_version: int | None) -> Any:
    if message.type in LEGACY_REQUEST_NAMES:
        name = LEGACY_REQUEST_NAMES[message.type]
        return {"type": name, **_members(message, LEGACY_REQUESTS[name])}
    match message.type:
        case ControlType.BROADCAST_MESSAGE | ControlType.UNICAST_MESSAGE:
            payload = _element(getattr(message, "stream_message"), stream_version)  # noqa: B009
        case ControlType() as kind if kind in LEGACY_PAYLOADS:
            payload = _members(message, LEGACY_PAYLOADS[kind])
        case _:
            raise _cannot_write(message, 0)
    sub_id = message.request_id if message.type == ControlType.UNICAST_MESSAGE else None
    return [0, message.type, sub_id, payload]


def _members(message: "ControlMessage", keys: "Mapping[str, str]") -> dict[str, Any]:
    """What is absent is left out, and so is an option that was not taken."""
    members = {key: getattr(message, name) for key, name in keys.items()}
    return {key: member for key, member in members.items() if member is not None and member is not False}


def _cannot_write(message: "ControlMessage", version: int) -> Unsupported:
    return Unsupported(f"{type(message).__name__} cannot be written as version {version}")
