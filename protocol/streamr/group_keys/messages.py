"""The contents of key exchange messages: the `content` of messages whose type is not 27.

Version 32 has arrays:

    28 request     [requestId, streamId, rsaPublicKey, [groupKeyId, …]]
    29 response    [requestId, streamId, [[groupKeyId, hex], …]]
    30 announce    [streamId, [[groupKeyId, hex], …]]
    31 error       [requestId, streamId, errorCode, errorMessage, [groupKeyId, …]]

Version 31 has objects; its keys have no ids, but a time from which they are valid:

    28 request     {requestId, streamId, publicKey, range?: {start, end}}
    29 response    {requestId, streamId, keys: [{groupKey, start}, …]}
    30 reset       {streamId, groupKey, start}
    31 error       {requestId, streamId, code, message}

The draft of 32 differs from 32 in two messages, which are encrypted as a whole:

    30 reset       [streamId, groupKeyId, hex], in its example without the stream
    32 rotate      [groupKeyId, hex]

Release 13 of the JavaScript client puts the recipient's address where 28 and 29 have the stream.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple

from protocol.streamr.checks import (
    Check,
    FieldError,
    check_count,
    check_optional_text,
    check_text,
    check_texts,
    field_names,
)
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message import MessageType


class EncryptedKey(NamedTuple):
    """A group key for one recipient: RSA ciphertext in hexadecimal."""

    group_key_id: str
    encrypted_hex: str


class KeyRange(NamedTuple):
    start: int  # ms
    end: int  # ms


class TimedKey(NamedTuple):
    """A key of version 31, which has no id: it is valid from `start` on."""

    group_key: str  # RSA ciphertext in hexadecimal
    start: int  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyMessage:
    """Base of all contents: an array of the fields in their order. Each field is checked by its type."""

    message_type: ClassVar[MessageType]

    def __post_init__(self) -> None:
        for each in fields(self):
            _CHECKS[each.type](each.name, getattr(self, each.name))

    def serialize(self) -> str:
        return encode_json([_to_json(getattr(self, name)) for name in field_names(type(self))])


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyMessage(GroupKeyMessage):
    """Base of the contents of version 31: an object of the fields that are present."""

    def serialize(self) -> str:
        members = {camel_case(name): _to_json(getattr(self, name)) for name in field_names(type(self))}
        return encode_json({key: member for key, member in members.items() if member is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyRequest(GroupKeyMessage):
    """A subscriber requests keys from a publisher, encrypted for this public key."""

    message_type = MessageType.GROUP_KEY_REQUEST
    request_id: str
    stream_id: str
    rsa_public_key: str
    group_key_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyResponse(GroupKeyMessage):
    """The requested keys that the publisher gives."""

    message_type = MessageType.GROUP_KEY_RESPONSE
    request_id: str
    stream_id: str
    group_keys: tuple[EncryptedKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyAnnounce(GroupKeyMessage):
    """Keys that a publisher sends without a request when it rekeys the stream."""

    message_type = MessageType.GROUP_KEY_ANNOUNCE
    stream_id: str
    group_keys: tuple[EncryptedKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyErrorResponse(GroupKeyMessage):
    """Why the publisher does not give these keys."""

    message_type = MessageType.GROUP_KEY_ERROR_RESPONSE
    request_id: str
    stream_id: str
    error_code: str
    error_message: str
    group_key_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyRequest(TimedKeyMessage):
    """Requests the current key, or the keys of a range of time. Older clients send no request id."""

    message_type = MessageType.GROUP_KEY_REQUEST
    request_id: str | None = None
    stream_id: str
    public_key: str
    range: KeyRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyResponse(TimedKeyMessage):
    message_type = MessageType.GROUP_KEY_RESPONSE
    request_id: str | None = None
    stream_id: str
    keys: tuple[TimedKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyReset(TimedKeyMessage):
    message_type = MessageType.GROUP_KEY_RESET
    stream_id: str
    group_key: str  # RSA ciphertext in hexadecimal
    start: int  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyErrorResponse(TimedKeyMessage):
    message_type = MessageType.GROUP_KEY_ERROR_RESPONSE
    request_id: str | None = None
    stream_id: str | None = None
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGroupKeyReset(GroupKeyMessage):
    message_type = MessageType.GROUP_KEY_RESET
    stream_id: str | None
    group_key_id: str
    group_key_hex: str = field(repr=False)  # the key itself: the content around it is encrypted


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGroupKeyRotate(GroupKeyMessage):
    message_type = MessageType.GROUP_KEY_ROTATE
    group_key_id: str
    group_key_hex: str = field(repr=False)  # the key itself: the content around it is encrypted


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _to_json(value: Any) -> Any:
    match value:
        case EncryptedKey():
            return [*value]
        case TimedKey() | KeyRange():
            return {camel_case(name): each for name, each in value._asdict().items()}
        case tuple():
            return [_to_json(each) for each in value]
    return value


def _check_keys(name: str, keys: object) -> None:
    if type(keys) is not tuple or not all(type(key) is EncryptedKey for key in keys):
        raise FieldError(name, "must be a tuple of EncryptedKey")
    for key in keys:
        check_text(name, key.group_key_id)
        check_text(name, key.encrypted_hex)


def _check_timed_keys(_name: str, keys: Any) -> None:
    for key in keys:
        check_text("group_key", key.group_key)
        check_count("start", key.start)


def _check_range(_name: str, range_: Any) -> None:
    if range_ is not None:
        check_count("start", range_.start)
        check_count("end", range_.end)


_CHECKS: Final[dict[Any, Check]] = {
    str: check_text,
    str | None: check_optional_text,
    int: check_count,
    tuple[str, ...]: check_texts,
    tuple[EncryptedKey, ...]: _check_keys,
    tuple[TimedKey, ...]: _check_timed_keys,
    KeyRange | None: _check_range,
}
