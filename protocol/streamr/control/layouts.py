"""The layouts of the control messages: the fields of each, after version and type.

Version 2 always has the request id in third place. Version 1 has it after the stream, and only in messages about a
resend.
"""

from enum import IntEnum
from typing import Final

LATEST_CONTROL_VERSION: Final = 2


class ControlType(IntEnum):
    BROADCAST_MESSAGE = 0
    UNICAST_MESSAGE = 1
    SUBSCRIBE_RESPONSE = 2
    UNSUBSCRIBE_RESPONSE = 3
    RESEND_RESPONSE_RESENDING = 4
    RESEND_RESPONSE_RESENT = 5
    RESEND_RESPONSE_NO_RESEND = 6
    ERROR_RESPONSE = 7
    PUBLISH_REQUEST = 8
    SUBSCRIBE_REQUEST = 9
    UNSUBSCRIBE_REQUEST = 10
    RESEND_LAST_REQUEST = 11
    RESEND_FROM_REQUEST = 12
    RESEND_RANGE_REQUEST = 13
    PROXY_CONNECTION_REQUEST = 14
    PROXY_CONNECTION_RESPONSE = 15


NEEDS_REQUEST_ID: Final = frozenset(
    {
        ControlType.UNICAST_MESSAGE,
        ControlType.RESEND_RESPONSE_RESENDING,
        ControlType.RESEND_RESPONSE_RESENT,
        ControlType.RESEND_RESPONSE_NO_RESEND,
        ControlType.RESEND_LAST_REQUEST,
        ControlType.RESEND_FROM_REQUEST,
    }
)
"""Messages that are invalid without the id of their request."""

_STREAM: Final = ("stream_id", "stream_partition")
_STREAM_1: Final = (*_STREAM, "request_id")
_STREAM_2: Final = ("request_id", *_STREAM)
_CHAIN: Final = ("publisher_id", "msg_chain_id", "session_token")

LAYOUT_1: Final[dict[ControlType, tuple[str, ...]]] = {
    ControlType.BROADCAST_MESSAGE: ("stream_message",),
    ControlType.UNICAST_MESSAGE: ("request_id", "stream_message"),
    ControlType.SUBSCRIBE_RESPONSE: _STREAM,
    ControlType.UNSUBSCRIBE_RESPONSE: _STREAM,
    ControlType.RESEND_RESPONSE_RESENDING: _STREAM_1,
    ControlType.RESEND_RESPONSE_RESENT: _STREAM_1,
    ControlType.RESEND_RESPONSE_NO_RESEND: _STREAM_1,
    ControlType.ERROR_RESPONSE: ("error_message",),
    ControlType.PUBLISH_REQUEST: ("stream_message", "session_token"),
    ControlType.SUBSCRIBE_REQUEST: (*_STREAM, "session_token"),
    ControlType.UNSUBSCRIBE_REQUEST: _STREAM,
    ControlType.RESEND_LAST_REQUEST: (*_STREAM_1, "number_last", "session_token"),
    ControlType.RESEND_FROM_REQUEST: (*_STREAM_1, "from_msg_ref", *_CHAIN),
    ControlType.RESEND_RANGE_REQUEST: (*_STREAM_1, "from_msg_ref", "to_msg_ref", *_CHAIN),
    ControlType.PROXY_CONNECTION_REQUEST: (*_STREAM, "sender_id"),
    ControlType.PROXY_CONNECTION_RESPONSE: (*_STREAM, "sender_id", "accepted"),
}

LAYOUT_2: Final[dict[ControlType, tuple[str, ...]]] = {
    ControlType.BROADCAST_MESSAGE: ("request_id", "stream_message"),
    ControlType.UNICAST_MESSAGE: ("request_id", "stream_message"),
    ControlType.SUBSCRIBE_RESPONSE: _STREAM_2,
    ControlType.UNSUBSCRIBE_RESPONSE: _STREAM_2,
    ControlType.RESEND_RESPONSE_RESENDING: _STREAM_2,
    ControlType.RESEND_RESPONSE_RESENT: _STREAM_2,
    ControlType.RESEND_RESPONSE_NO_RESEND: _STREAM_2,
    ControlType.ERROR_RESPONSE: ("request_id", "error_message", "error_code"),
    ControlType.PUBLISH_REQUEST: ("request_id", "stream_message", "session_token"),
    ControlType.SUBSCRIBE_REQUEST: (*_STREAM_2, "session_token"),
    ControlType.UNSUBSCRIBE_REQUEST: _STREAM_2,
    ControlType.RESEND_LAST_REQUEST: (*_STREAM_2, "number_last", "session_token"),
    ControlType.RESEND_FROM_REQUEST: (*_STREAM_2, "from_msg_ref", "publisher_id", "session_token"),
    ControlType.RESEND_RANGE_REQUEST: (*_STREAM_2, "from_msg_ref", "to_msg_ref", *_CHAIN),
    ControlType.PROXY_CONNECTION_REQUEST: (*_STREAM_2, "sender_id"),
    ControlType.PROXY_CONNECTION_RESPONSE: (*_STREAM_2, "sender_id", "accepted"),
}

RESEND_FROM_WITH_CHAIN: Final = (*_STREAM_2, "from_msg_ref", *_CHAIN)
"""One document puts the chain before the session token. Read where there are 9 elements, never written."""

DIRECTED_PROXY_LAYOUT: Final[dict[ControlType, tuple[str, ...]]] = {
    ControlType.PROXY_CONNECTION_REQUEST: (*_STREAM_2, "sender_id", "direction", "user_id"),
    ControlType.PROXY_CONNECTION_RESPONSE: (*_STREAM_2, "sender_id", "direction", "accepted"),
}
"""The layouts of these two from release 13 on, under the same version and the same types."""

_LEGACY_AUTH: Final = {"stream": "stream_id", "authKey": "auth_key", "sessionToken": "session_token"}
_LEGACY_STREAM: Final = {"stream": "stream_id", "partition": "stream_partition"}
_LEGACY_RESEND: Final = {**_LEGACY_STREAM, "sub": "request_id"}

LEGACY_REQUESTS: Final[dict[str, dict[str, str]]] = {
    "publish": {
        **_LEGACY_AUTH,
        "msg": "content",
        "ts": "timestamp",
        "pkey": "partition_key",
        "addr": "publisher_id",
        "sigtype": "signature_type",
        "sig": "signature",
    },
    "subscribe": {
        "stream": "stream_id",
        "authKey": "auth_key",
        "partition": "stream_partition",
        "sessionToken": "session_token",
    },
    "unsubscribe": _LEGACY_STREAM,
    "resend": {
        **_LEGACY_AUTH,
        "partition": "stream_partition",
        "sub": "request_id",
        "resend_all": "resend_all",
        "resend_last": "resend_last",
        "resend_from": "resend_from",
        "resend_to": "resend_to",
        "resend_from_time": "resend_from_time",
    },
}
"""Version 0: a request is an object, its type a name. The keys, in the order in which they are written."""

LEGACY_REQUEST_NAMES: Final[dict[ControlType | str, str]] = {
    "publish": "publish",
    "resend": "resend",
    ControlType.SUBSCRIBE_REQUEST: "subscribe",
    ControlType.UNSUBSCRIBE_REQUEST: "unsubscribe",
}

LEGACY_PAYLOADS: Final[dict[ControlType, dict[str, str]]] = {
    ControlType.SUBSCRIBE_RESPONSE: _LEGACY_STREAM,
    ControlType.UNSUBSCRIBE_RESPONSE: _LEGACY_STREAM,
    ControlType.RESEND_RESPONSE_RESENDING: _LEGACY_RESEND,
    ControlType.RESEND_RESPONSE_RESENT: _LEGACY_RESEND,
    ControlType.RESEND_RESPONSE_NO_RESEND: _LEGACY_RESEND,
    ControlType.ERROR_RESPONSE: {"error": "error_message"},
}
"""Version 0: a response is `[0, type, subId or null, payload]`. Where the payload is an object, its keys."""
