"""The message of a stream, as one value for every version of the stream layer.

| version | elements | what it adds |
|---|---|---|
| 28 | 9 | time to live, offsets instead of references; no publisher |
| 29 | 12 | publisher, signature |
| 30 | 7 | message id, reference to the previous message, message type |
| 31 | 8 | encryption type |
| 32 draft | 10 | content type, group key id; only the first document on version 32 shows it, nobody sent it |
| 32 | 11 | new group key |

A field that a version lacks has its neutral value, so that the rest of the program sees one kind of message.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

import orjson

from protocol.streamr.checks import (
    FieldError,
    check_count,
    check_filled_text,
    check_optional_count,
    check_optional_text,
    check_text,
    refuse,
    shown,
)
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import encode_json

__all__ = [
    "LATEST_STREAM_VERSION",
    "ContentType",
    "EncryptedGroupKey",
    "EncryptionType",
    "LegacyOffsets",
    "MessageType",
    "SignatureType",
    "StreamMessage",
]

LATEST_STREAM_VERSION: Final = 32
LEGACY_VERSIONS: Final = frozenset({28, 29})


class MessageType(IntEnum):
    """What the content is for. Versions up to 31 call this the content type."""

    MESSAGE = 27
    GROUP_KEY_REQUEST = 28
    GROUP_KEY_RESPONSE = 29
    GROUP_KEY_ANNOUNCE = 30
    GROUP_KEY_RESET = 30  # the name up to version 31 and in the draft of 32
    GROUP_KEY_ERROR_RESPONSE = 31
    GROUP_KEY_ROTATE = 32  # the draft of 32 only


class ContentType(IntEnum):
    JSON = 0


class EncryptionType(IntEnum):
    NONE = 0
    RSA = 1
    AES = 2
    NEW_KEY_AND_AES = 3  # version 31 only: the plaintext starts with the next key


class SignatureType(IntEnum):
    NONE = 0
    ETH_LEGACY = 1
    ETH = 2


_NO_KEY_IDS: Final[dict[str, object]] = {"group_key_id": None, "new_group_key": None}
_NO_ENCRYPTION: Final[dict[str, object]] = {**_NO_KEY_IDS, "encryption_type": EncryptionType.NONE}
_NO_CHAIN: Final[dict[str, object]] = {
    **_NO_ENCRYPTION,
    "prev_msg_ref": None,
    "message_type": MessageType.MESSAGE,
}
_NO_SIGNATURE: Final[dict[str, object]] = {
    **_NO_CHAIN,
    "signature_type": SignatureType.NONE,
    "signature": None,
}
DRAFT_LACKS: Final[dict[str, object]] = {"new_group_key": None}
VERSION_LACKS: Final = {28: _NO_SIGNATURE, 29: _NO_CHAIN, 30: _NO_ENCRYPTION, 31: _NO_KEY_IDS, 32: {}}
"""The fields that a version does not have, each with the value that it then has here."""


@dataclass(frozen=True, slots=True)
class EncryptedGroupKey:
    """The next group key, encrypted with the current one. The text is kept as it came: it is signed."""

    serialized: str
    group_key_id: str = field(init=False)
    encrypted_hex: str = field(init=False)

    def __post_init__(self) -> None:
        group_key_id, encrypted_hex = _parse_group_key_pair(self.serialized)
        object.__setattr__(self, "group_key_id", group_key_id)
        object.__setattr__(self, "encrypted_hex", encrypted_hex)

    @classmethod
    def build(cls, group_key_id: str, encrypted_hex: str) -> Self:
        return cls(encode_json([group_key_id, encrypted_hex]))


def _parse_group_key_pair(serialized: str) -> tuple[str, str]:
    check_text("new_group_key", serialized)
    try:
        pair = orjson.loads(serialized)
    except orjson.JSONDecodeError as problem:
        raise FieldError("new_group_key", f"is not JSON: {problem}") from None
    if type(pair) is not list or len(pair) < 2:
        refuse("new_group_key", pair, "the JSON text of an array of group key id and encrypted key")
    check_text("new_group_key", pair[0])
    check_text("new_group_key", pair[1])
    return pair[0], pair[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOffsets:
    """What versions 28 and 29 have in place of references."""

    ttl: int | None = 0  # s
    offset: int
    previous_offset: int | None = None

    def __post_init__(self) -> None:
        check_optional_count("ttl", self.ttl)
        check_count("offset", self.offset)
        check_optional_count("previous_offset", self.previous_offset)


class _StreamMessageFields(NamedTuple):
    message_id: MessageID
    content: str
    prev_msg_ref: MessageRef | None
    message_type: MessageType
    content_type: ContentType
    encryption_type: EncryptionType
    group_key_id: str | None
    new_group_key: EncryptedGroupKey | None
    signature_type: SignatureType
    signature: str | None
    version: int
    draft: bool
    legacy: LegacyOffsets | None


class StreamMessage(_StreamMessageFields):
    """One message of a stream.

    `content` is the text that was signed, kept as it came for ever. It is not parsed here, and it is
    ciphertext in hexadecimal where `encryption_type` says so. `version` is the version the message was read in
    or will be written in, `draft` says whether in the layout of the draft of 32. `legacy` is there exactly in
    versions 28 and 29.
    """

    __slots__ = ()

    def __new__(
        cls,
        message_id: MessageID,
        content: str,
        prev_msg_ref: MessageRef | None = None,
        message_type: MessageType = MessageType.MESSAGE,
        content_type: ContentType = ContentType.JSON,
        encryption_type: EncryptionType = EncryptionType.NONE,
        group_key_id: str | None = None,
        new_group_key: EncryptedGroupKey | None = None,
        signature_type: SignatureType = SignatureType.NONE,
        signature: str | None = None,
        version: int = LATEST_STREAM_VERSION,
        draft: bool = False,
        legacy: LegacyOffsets | None = None,
    ) -> Self:
        check_filled_text("content", content)
        check_optional_text("group_key_id", group_key_id)
        check_optional_text("signature", signature)
        self = tuple.__new__(
            cls,
            (
                message_id,
                content,
                prev_msg_ref,
                message_type,
                content_type,
                encryption_type,
                group_key_id,
                new_group_key,
                signature_type,
                signature,
                version,
                draft,
                legacy,
            ),
        )
        self._check_kinds()
        self._check_order()
        if version != LATEST_STREAM_VERSION or draft:
            self._check_older_version()
        return self

    def replace(self, **changes: Any) -> Self:
        """The same message with some fields changed, checked like any new one."""
        return type(self)(**{**self._asdict(), **changes})

    def _check_kinds(self) -> None:
        if type(self.message_type) is not MessageType or (
            self.message_type is MessageType.GROUP_KEY_ROTATE and not self.draft
        ):
            refuse("message_type", self.message_type, "a message type of its version")
        if type(self.content_type) is not ContentType:
            refuse("content_type", self.content_type, "a content type")
        if type(self.encryption_type) is not EncryptionType or (
            self.encryption_type is EncryptionType.NEW_KEY_AND_AES and self.version != 31
        ):
            refuse("encryption_type", self.encryption_type, "an encryption type of its version")
        if type(self.signature_type) is not SignatureType:
            refuse("signature_type", self.signature_type, "a signature type")

    def _check_order(self) -> None:
        if self.prev_msg_ref is not None and self.prev_msg_ref >= self.message_id[2:4]:
            problem = f"{self.prev_msg_ref[:]} is not older than the message itself, {self.message_id[2:4]}"
            raise FieldError("prev_msg_ref", problem)

    def _check_older_version(self) -> None:
        if self.version not in VERSION_LACKS or (self.draft and self.version != LATEST_STREAM_VERSION):
            refuse("version", self.version, "28, 29, 30, 31 or 32, and 32 for a draft")
        for name, neutral in (DRAFT_LACKS if self.draft else VERSION_LACKS[self.version]).items():
            if getattr(self, name) != neutral:
                refuse(name, getattr(self, name), f"{shown(neutral)} in version {self.version}")
        if (self.legacy is not None) != (self.version in LEGACY_VERSIONS):
            refuse("legacy", self.legacy, "there exactly in versions 28 and 29")
        if self.version in LEGACY_VERSIONS and self.message_id != legacy_message_id(
            self.message_id, self.version
        ):
            refuse("message_id", self.message_id, f"without what version {self.version} lacks")


def legacy_message_id(message_id: MessageID, version: int) -> MessageID:
    """What is left of an id in versions 28 and 29: no sequence number, no chain, and in 28 no publisher."""
    stream_id, stream_partition, timestamp, _, publisher_id, _ = message_id
    return MessageID(stream_id, stream_partition, timestamp, 0, publisher_id if version == 29 else "")
