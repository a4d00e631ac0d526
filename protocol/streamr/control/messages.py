"""The messages of the control layer between a client and a node, in all versions.

One class per message, whatever its version; `layouts` has the layout of each version. Two requests exist only in
version 0, because their content differs from that of their successors: a publish request holds the parts of a message
that the server builds, and a resend request uses offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from protocol.errors import Unsupported
from protocol.streamr.checks import FieldError, check_fields, check_filled_text
from protocol.streamr.control.checks import FIELD_CHECKS
from protocol.streamr.control.layouts import (
    DIRECTED_PROXY_LAYOUT,
    LATEST_CONTROL_VERSION,
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
from protocol.streamr.stream_message import SignatureType, StreamMessage

UNKNOWN_ERROR_CODE: Final = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMessage:
    """Base of all control messages.

    `version` is the one in which it was read or will be written: 0, 1 or 2. `request_id` pairs requests and
    responses; it is empty if the version has none, or if there was no request.
    """

    type: ClassVar[ControlType | str]
    version: int = LATEST_CONTROL_VERSION
    request_id: str = ""

    def __post_init__(self) -> None:
        check_fields(self, FIELD_CHECKS)

    def serialize(self, version: int | None = None, *, stream_version: int | None = None) -> str:
        """The message as JSON, in its own version or in another; `stream_version` is for the stream message within.

        Raises: `Unsupported` if that version cannot hold it.
        """
        return _serialize(self, self.version if version is None else version, stream_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AboutStream(ControlMessage):
    stream_id: str
    stream_partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastMessage(ControlMessage):
    """A message for all subscribers of its stream partition."""

    type: ClassVar = ControlType.BROADCAST_MESSAGE
    stream_message: StreamMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicastMessage(ControlMessage):
    """A message for the client that requested a resend."""

    type: ClassVar = ControlType.UNICAST_MESSAGE
    stream_message: StreamMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeResponse(_AboutStream):
    type: ClassVar = ControlType.SUBSCRIBE_RESPONSE


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeResponse(_AboutStream):
    type: ClassVar = ControlType.UNSUBSCRIBE_RESPONSE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendResponseResending(_AboutStream):
    """A resend begins."""

    type: ClassVar = ControlType.RESEND_RESPONSE_RESENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendResponseResent(_AboutStream):
    """A resend is complete."""

    type: ClassVar = ControlType.RESEND_RESPONSE_RESENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendResponseNoResend(_AboutStream):
    """There is nothing to resend."""

    type: ClassVar = ControlType.RESEND_RESPONSE_NO_RESEND


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse(ControlMessage):
    """Versions 0 and 1 have no error code."""

    type: ClassVar = ControlType.ERROR_RESPONSE
    error_message: str
    error_code: str = UNKNOWN_ERROR_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest(ControlMessage):
    """Publish a message. The only response is an error."""

    type: ClassVar = ControlType.PUBLISH_REQUEST
    stream_message: StreamMessage
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest(_AboutStream):
    """Subscribe to a stream partition. `auth_key` exists only in version 0."""

    type: ClassVar = ControlType.SUBSCRIBE_REQUEST
    session_token: str | None = field(default=None, repr=False)
    auth_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeRequest(_AboutStream):
    type: ClassVar = ControlType.UNSUBSCRIBE_REQUEST


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendLastRequest(_AboutStream):
    type: ClassVar = ControlType.RESEND_LAST_REQUEST
    number_last: int
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendFromRequest(_AboutStream):
    """Everything from a reference on, of one publisher or of all. Version 2 does not write the chain."""

    type: ClassVar = ControlType.RESEND_FROM_REQUEST
    from_msg_ref: MessageRef
    publisher_id: str | None = None
    msg_chain_id: str | None = None
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendRangeRequest(_AboutStream):
    """Everything between two references, both included."""

    type: ClassVar = ControlType.RESEND_RANGE_REQUEST
    from_msg_ref: MessageRef
    to_msg_ref: MessageRef
    publisher_id: str | None = None
    msg_chain_id: str | None = None
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        ControlMessage.__post_init__(self)
        if self.from_msg_ref.timestamp > self.to_msg_ref.timestamp:
            raise FieldError("from_msg_ref", f"is later than to_msg_ref, {self.to_msg_ref[:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConnectionRequest(_AboutStream):
    """One node requests another to forward messages. Before release 13, without direction and user."""

    type: ClassVar = ControlType.PROXY_CONNECTION_REQUEST
    sender_id: str
    direction: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConnectionResponse(_AboutStream):
    type: ClassVar = ControlType.PROXY_CONNECTION_RESPONSE
    sender_id: str
    accepted: bool
    direction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyPublishRequest(ControlMessage):
    """Publish by version 0. Where a field is None, the server decides: the time, and any partition."""

    type: ClassVar = "publish"
    version: int = 0
    stream_id: str
    content: str
    timestamp: int | None = None  # ms
    partition_key: str | None = None
    publisher_id: str | None = None
    signature_type: SignatureType | None = None
    signature: str | None = None
    auth_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        ControlMessage.__post_init__(self)
        if self.auth_key is None and self.session_token is None:
            raise FieldError("auth_key", "is missing, and so is the session token")


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyResendRequest(_AboutStream):
    """Resend by version 0: all, the last N, or from an offset or a time on, optionally up to an offset."""

    type: ClassVar = "resend"
    version: int = 0
    resend_all: bool = False
    resend_last: int | None = None
    resend_from: int | None = None
    resend_to: int | None = None
    resend_from_time: int | None = None  # ms
    auth_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        ControlMessage.__post_init__(self)
        check_filled_text("request_id", self.request_id)
        choices = (self.resend_last, self.resend_from, self.resend_from_time)
        if not self.resend_all and all(choice is None for choice in choices):
            raise FieldError("resend_all", "or another option must select what to resend")


KINDS: Final[dict[ControlType, type[ControlMessage]]] = {
    ControlType.BROADCAST_MESSAGE: BroadcastMessage,
    ControlType.UNICAST_MESSAGE: UnicastMessage,
    ControlType.SUBSCRIBE_RESPONSE: SubscribeResponse,
    ControlType.UNSUBSCRIBE_RESPONSE: UnsubscribeResponse,
    ControlType.RESEND_RESPONSE_RESENDING: ResendResponseResending,
    ControlType.RESEND_RESPONSE_RESENT: ResendResponseResent,
    ControlType.RESEND_RESPONSE_NO_RESEND: ResendResponseNoResend,
    ControlType.ERROR_RESPONSE: ErrorResponse,
    ControlType.PUBLISH_REQUEST: PublishRequest,
    ControlType.SUBSCRIBE_REQUEST: SubscribeRequest,
    ControlType.UNSUBSCRIBE_REQUEST: UnsubscribeRequest,
    ControlType.RESEND_LAST_REQUEST: ResendLastRequest,
    ControlType.RESEND_FROM_REQUEST: ResendFromRequest,
    ControlType.RESEND_RANGE_REQUEST: ResendRangeRequest,
    ControlType.PROXY_CONNECTION_REQUEST: ProxyConnectionRequest,
    ControlType.PROXY_CONNECTION_RESPONSE: ProxyConnectionResponse,
}


def _serialize(message: ControlMessage, version: int, stream_version: int | None) -> str:
    """Raises: `Unsupported` if the version cannot hold the message."""
    if message.type in NEEDS_REQUEST_ID and not message.request_id:
        raise Unsupported(f"{type(message).__name__} cannot be written: its request_id is empty")
    if version == 0:
        return encode_json(_legacy_json(message, stream_version))
    layout = _layout(message, version)
    fields = [_element(getattr(message, name), stream_version) for name in layout]
    return encode_json([version, message.type, *fields])


def _layout(message: ControlMessage, version: int) -> tuple[str, ...]:
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


def _legacy_json(message: ControlMessage, stream_version: int | None) -> Any:
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


def _members(message: ControlMessage, keys: Mapping[str, str]) -> dict[str, Any]:
    """The members that are present; an option that is false is left out."""
    members = {key: getattr(message, name) for key, name in keys.items()}
    return {key: member for key, member in members.items() if member is not None and member is not False}


def _cannot_write(message: ControlMessage, version: int) -> Unsupported:
    return Unsupported(f"{type(message).__name__} cannot be written as version {version}")
