"""The check of each field of the control messages."""

from collections.abc import Callable
from typing import Final

from protocol.streamr.checks import (
    check_count,
    check_filled_text,
    check_optional_count,
    check_optional_integer,
    check_optional_text,
    check_text,
    refuse,
)
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import SignatureType, StreamMessage


def _check_version(field: str, value: object) -> None:
    if type(value) is not int or value not in (0, 1, 2):
        refuse(field, value, "0, 1 or 2")


def _check_kind(kind: type, expected: str, *, optional: bool = False) -> Callable[[str, object], None]:
    def check_kind(field: str, value: object) -> None:
        if type(value) is not kind and not (optional and value is None):
            refuse(field, value, expected)

    return check_kind


FIELD_CHECKS: Final = {
    "version": _check_version,
    "request_id": check_text,
    "stream_id": check_filled_text,
    "stream_partition": check_count,
    "stream_message": _check_kind(StreamMessage, "a stream message"),
    "session_token": check_optional_text,
    "auth_key": check_optional_text,
    "error_message": check_text,
    "error_code": check_text,
    "number_last": check_count,
    "from_msg_ref": _check_kind(MessageRef, "a message reference"),
    "to_msg_ref": _check_kind(MessageRef, "a message reference"),
    "publisher_id": check_optional_text,
    "msg_chain_id": check_optional_text,
    "sender_id": check_text,
    "direction": check_optional_text,
    "user_id": check_optional_text,
    "accepted": _check_kind(bool, "true or false"),
    "content": check_text,
    "timestamp": check_optional_integer,
    "partition_key": check_optional_text,
    "signature_type": _check_kind(SignatureType, "a signature type", optional=True),
    "signature": check_optional_text,
    "resend_all": _check_kind(bool, "true or false"),
    "resend_last": check_optional_count,
    "resend_from": check_optional_integer,
    "resend_to": check_optional_integer,
    "resend_from_time": check_optional_integer,
}
