"""The contents of key exchange messages: what stands in `content` where the message type is not 27.

Version 32 has arrays:

    28 request     [requestId, streamId, rsaPublicKey, [groupKeyId, …]]
    29 response    [requestId, streamId, [[groupKeyId, hex], …]]
    30 announce    [streamId, [[groupKeyId, hex], …]]
    31 error       [requestId, streamId, errorCode, errorMessage, [groupKeyId, …]]

Version 31 has objects; its keys have no ids, but a time from which they hold:

    28 request     {requestId, streamId, publicKey, range?: {start, end}}
    29 response    {requestId, streamId, keys: [{groupKey, start}, …]}
    30 reset       {streamId, groupKey, start}
    31 error       {requestId, streamId, code, message}

The draft of 32 differs from 32 in two, which are encrypted as a whole:

    30 reset       [streamId, groupKeyId, hex], in its example without the stream
    32 rotate      [groupKeyId, hex]

Release 13 of the JavaScript client puts the recipient's address where 28 and 29 have the stream.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from protocol.streamr.checks import FieldError, check_count, check_optional_text, check_text, check_texts
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message import MessageType

__all__ = [
    "DraftGroupKeyReset",
    "DraftGroupKeyRotate",
    "EncryptedKey",
    "GroupKeyAnnounce",
    "GroupKeyErrorResponse",
    "GroupKeyMessage",
    "GroupKeyRequest",
    "GroupKeyResponse",
    "KeyRange",
    "TimedKey",
    "TimedKeyErrorResponse",
    "TimedKeyRequest",
    "TimedKeyReset",
    "TimedKeyResponse",
]


class EncryptedKey(NamedTuple):
    """A group key for one recipient: RSA ciphertext in hexadecimal."""

    group_key_id: str
    encrypted_hex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyRequest:
    """A subscriber asks a publisher for keys, to be encrypted for this public key."""

    message_type: ClassVar = MessageType.GROUP_KEY_REQUEST
    request_id: str
    stream_id: str
    rsa_public_key: str
    group_key_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_texts_of(self, "request_id", "stream_id", "rsa_public_key")
        check_texts("group_key_ids", self.group_key_ids)

    def serialize(self) -> str:
        return encode_json([self.request_id, self.stream_id, self.rsa_public_key, self.group_key_ids])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyResponse:
    """The keys that were asked for, as far as the publisher gives them."""

    message_type: ClassVar = MessageType.GROUP_KEY_RESPONSE
    request_id: str
    stream_id: str
    group_keys: tuple[EncryptedKey, ...]

    def __post_init__(self) -> None:
        _check_texts_of(self, "request_id", "stream_id")
        _check_keys(self.group_keys)

    def serialize(self) -> str:
        return encode_json([self.request_id, self.stream_id, [[*key] for key in self.group_keys]])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyAnnounce:
    """Keys that a publisher gives unasked when it rekeys the stream."""

    message_type: ClassVar = MessageType.GROUP_KEY_ANNOUNCE
    stream_id: str
    group_keys: tuple[EncryptedKey, ...]

    def __post_init__(self) -> None:
        _check_texts_of(self, "stream_id")
        _check_keys(self.group_keys)

    def serialize(self) -> str:
        return encode_json([self.stream_id, [[*key] for key in self.group_keys]])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeyErrorResponse:
    """Why the publisher does not give these keys."""

    message_type: ClassVar = MessageType.GROUP_KEY_ERROR_RESPONSE
    request_id: str
    stream_id: str
    error_code: str
    error_message: str
    group_key_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_texts_of(self, "request_id", "stream_id", "error_code", "error_message")
        check_texts("group_key_ids", self.group_key_ids)

    def serialize(self) -> str:
        return encode_json([self.request_id, self.stream_id, self.error_code, self.error_message, self.group_key_ids])


class KeyRange(NamedTuple):
    start: int  # ms
    end: int  # ms


class TimedKey(NamedTuple):
    """A key of version 31 has no id: it holds from `start` on."""

    group_key: str  # RSA ciphertext in hexadecimal
    start: int  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyRequest:
    """Asks for the current key, or for those of a range of time. Older clients send no request id."""

    message_type: ClassVar = MessageType.GROUP_KEY_REQUEST
    request_id: str | None = None
    stream_id: str
    public_key: str
    range: KeyRange | None = None

    def __post_init__(self) -> None:
        check_optional_text("request_id", self.request_id)
        _check_texts_of(self, "stream_id", "public_key")
        if self.range is not None:
            check_count("start", self.range.start)
            check_count("end", self.range.end)

    def serialize(self) -> str:
        when = self.range and self.range._asdict()
        return _encode_object(requestId=self.request_id, streamId=self.stream_id, publicKey=self.public_key, range=when)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyResponse:
    message_type: ClassVar = MessageType.GROUP_KEY_RESPONSE
    request_id: str | None = None
    stream_id: str
    keys: tuple[TimedKey, ...]

    def __post_init__(self) -> None:
        check_optional_text("request_id", self.request_id)
        _check_texts_of(self, "stream_id")
        for key in self.keys:
            check_text("group_key", key.group_key)
            check_count("start", key.start)

    def serialize(self) -> str:
        keys = [{"groupKey": key.group_key, "start": key.start} for key in self.keys]
        return _encode_object(requestId=self.request_id, streamId=self.stream_id, keys=keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyReset:
    message_type: ClassVar = MessageType.GROUP_KEY_RESET
    stream_id: str
    group_key: str  # RSA ciphertext in hexadecimal
    start: int  # ms

    def __post_init__(self) -> None:
        _check_texts_of(self, "stream_id", "group_key")
        check_count("start", self.start)

    def serialize(self) -> str:
        return _encode_object(streamId=self.stream_id, groupKey=self.group_key, start=self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKeyErrorResponse:
    message_type: ClassVar = MessageType.GROUP_KEY_ERROR_RESPONSE
    request_id: str | None = None
    stream_id: str | None = None
    code: str
    message: str

    def __post_init__(self) -> None:
        check_optional_text("request_id", self.request_id)
        check_optional_text("stream_id", self.stream_id)
        _check_texts_of(self, "code", "message")

    def serialize(self) -> str:
        return _encode_object(requestId=self.request_id, streamId=self.stream_id, code=self.code, message=self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGroupKeyReset:
    message_type: ClassVar = MessageType.GROUP_KEY_RESET
    stream_id: str | None
    group_key_id: str
    group_key_hex: str = field(repr=False)  # the key itself: the content around it is what is encrypted

    def __post_init__(self) -> None:
        check_optional_text("stream_id", self.stream_id)
        _check_texts_of(self, "group_key_id", "group_key_hex")

    def serialize(self) -> str:
        return encode_json([self.stream_id, self.group_key_id, self.group_key_hex])


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGroupKeyRotate:
    message_type: ClassVar = MessageType.GROUP_KEY_ROTATE
    group_key_id: str
    group_key_hex: str = field(repr=False)  # the key itself: the content around it is what is encrypted

    def __post_init__(self) -> None:
        _check_texts_of(self, "group_key_id", "group_key_hex")

    def serialize(self) -> str:
        return encode_json([self.group_key_id, self.group_key_hex])


GroupKeyMessage = (
    GroupKeyRequest
    | GroupKeyResponse
    | GroupKeyAnnounce
    | GroupKeyErrorResponse
    | TimedKeyRequest
    | TimedKeyResponse
    | TimedKeyReset
    | TimedKeyErrorResponse
    | DraftGroupKeyReset
    | DraftGroupKeyRotate
)


def _check_texts_of(value: object, *names: str) -> None:
    for name in names:
        check_text(name, getattr(value, name))


def _check_keys(keys: object) -> None:
    if type(keys) is not tuple or not all(type(key) is EncryptedKey for key in keys):
        raise FieldError("group_keys", "must be a tuple of EncryptedKey")
    for key in keys:
        check_text("group_keys", key.group_key_id)
        check_text("group_keys", key.encrypted_hex)


def _encode_object(**members: Any) -> str:
    return encode_json({key: member for key, member in members.items() if member is not None})
