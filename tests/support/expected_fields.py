"""Holds a message against the fields that a vector gives for it."""

from typing import Any

from protocol.streamr.stream_message import StreamMessage

RENAMED = {
    "authKey": "auth_key",
    "addr": "publisher_id",
    "control": "control_layer_payload",
    "code": "type",
    "msg": "content",
    "nodeIds": "node_addresses",
    "partition": "stream_partition",
    "pkey": "partition_key",
    "sig": "signature",
    "sigtype": "signature_type",
    "stream": "stream_id",
    "sub": "request_id",
    "subId": "request_id",
    "ts": "timestamp",
}


def assert_has_fields(message: Any, fields: dict[str, Any]) -> None:
    for key, expected in fields.items():
        if key == "streamMessage":
            assert_is_stream_message(message.stream_message, expected)
        elif key == "streamMessageVersion":
            assert message.stream_message.version == expected
        else:
            assert plain(getattr(message, RENAMED.get(key, snake_case(key)))) == expected, key


def assert_is_stream_message(message: StreamMessage, fields: dict[str, Any]) -> None:
    assert {key: plain(stream_field(message, key)) for key in fields} == fields


def stream_field(message: StreamMessage, key: str) -> Any:
    name = snake_case(key)
    if message.legacy is not None:
        if key == "contentType":
            return message.message_type
        if key == "publisherId":
            return message.message_id.publisher_id or None
        if hasattr(message.legacy, name):
            return getattr(message.legacy, name)
    if key == "newGroupKey":
        new_key = message.new_group_key
        return new_key and [new_key.group_key_id, new_key.encrypted_hex]
    return getattr(message if hasattr(message, name) else message.message_id, name)


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def snake_case(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
