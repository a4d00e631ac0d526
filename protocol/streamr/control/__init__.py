"""The control layer: the messages between a client and a node, in versions 0, 1 and 2."""

from protocol.streamr.control.codec import parse_control_message
from protocol.streamr.control.layouts import ControlType
from protocol.streamr.control.messages import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    LegacyPublishRequest,
    LegacyResendRequest,
    ProxyConnectionRequest,
    ProxyConnectionResponse,
    PublishRequest,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResending,
    ResendResponseResent,
    SubscribeRequest,
    SubscribeResponse,
    UnicastMessage,
    UnsubscribeRequest,
    UnsubscribeResponse,
)

__all__ = [
    "BroadcastMessage",
    "ControlMessage",
    "ControlType",
    "ErrorResponse",
    "LegacyPublishRequest",
    "LegacyResendRequest",
    "ProxyConnectionRequest",
    "ProxyConnectionResponse",
    "PublishRequest",
    "ResendFromRequest",
    "ResendLastRequest",
    "ResendRangeRequest",
    "ResendResponseNoResend",
    "ResendResponseResending",
    "ResendResponseResent",
    "SubscribeRequest",
    "SubscribeResponse",
    "UnicastMessage",
    "UnsubscribeRequest",
    "UnsubscribeResponse",
    "parse_control_message",
]
