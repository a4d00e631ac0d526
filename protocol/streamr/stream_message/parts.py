"""The enumerations and parts of a stream message, and the layout of each version.

Versions 28 and 29 are flat. Later ones have the message id and the reference to the previous message as arrays:

    message_id     [streamId, streamPartition, timestamp, sequenceNumber, publisherId, msgChainId]
    prev_msg_ref   [timestamp, sequenceNumber] or null
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Self

import orjson

from protocol.streamr.checks import (
    FieldError,
    check_optional_count,
    check_optional_integer,
    check_text,
    refuse,
)
from protocol.streamr.ids import MessageID
from protocol.streamr.json_text import encode_json

LATEST_STREAM_VERSION: Final = 32
LEGACY_VERSIONS: Final = frozenset({28, 29})
MODERN_VERSIONS: Final = frozenset({30, 31, 32})
STREAM_VERSIONS: Final = LEGACY_VERSIONS | MODERN_VERSIONS


class MessageType(IntEnum):
    """The purpose of the content. Versions up to 31 call this the content type."""

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


_NO_NEW_KEY: Final[dict[str, object]] = {"new_group_key": None}
_NO_KEY_IDS: Final = {**_NO_NEW_KEY, "group_key_id": None}
_NO_ENCRYPTION: Final = {**_NO_KEY_IDS, "encryption_type": EncryptionType.NONE}
_NO_CHAIN: Final = {**_NO_ENCRYPTION, "prev_msg_ref": None, "message_type": MessageType.MESSAGE}
_NO_SIGNATURE: Final = {**_NO_CHAIN, "signature_type": SignatureType.NONE, "signature": None}
_LACKING: Final = {28: _NO_SIGNATURE, 29: _NO_CHAIN, 30: _NO_ENCRYPTION, 31: _NO_KEY_IDS, 32: {}}


def fields_lacking_in(version: int, *, draft: bool) -> dict[str, object]:
    """The fields that a version lacks, each with its neutral value."""
    return _NO_NEW_KEY if draft else _LACKING[version]


def legacy_message_id(message_id: MessageID, version: int) -> MessageID:
    """The part of an id that versions 28 and 29 have: no sequence number, no chain, and in 28 no publisher."""
    stream_id, stream_partition, timestamp, _, publisher_id, _ = message_id
    return MessageID(stream_id, stream_partition, timestamp, 0, publisher_id if version == 29 else "", "")


@dataclass(frozen=True, slots=True)
class EncryptedGroupKey:
    """The next group key, encrypted with the current one. Its text is retained unchanged, because it is signed."""

    serialized: str
    group_key_id: str = field(init=False)
    encrypted_hex: str = field(init=False)

    def __post_init__(self) -> None:
        group_key_id, encrypted_hex = _parse_pair(self.serialized)
        object.__setattr__(self, "group_key_id", group_key_id)
        object.__setattr__(self, "encrypted_hex", encrypted_hex)

    @classmethod
    def build(cls, group_key_id: str, encrypted_hex: str) -> Self:
        return cls(encode_json([group_key_id, encrypted_hex]))


def _parse_pair(serialized: str) -> tuple[str, str]:
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
    """The offsets of versions 28 and 29, which have no references. Offset -1 is before the first message."""

    ttl: int | None = 0  # s
    offset: int | None
    previous_offset: int | None = None

    def __post_init__(self) -> None:
        check_optional_count("ttl", self.ttl)
        check_optional_integer("offset", self.offset)
        check_optional_integer("previous_offset", self.previous_offset)


_LEGACY: Final = (
    "version",
    "stream_id",
    "stream_partition",
    "timestamp",
    "ttl",
    "offset",
    "previous_offset",
    "message_type",
    "content",
)
_HEAD: Final = ("version", "message_id", "prev_msg_ref", "message_type")
_KINDS: Final = ("content_type", "encryption_type", "group_key_id")
_TAIL: Final = ("signature_type", "signature")

LAYOUTS: Final = {
    28: _LEGACY,
    29: (*_LEGACY, "signature_type", "publisher_id", "signature"),
    30: (*_HEAD, "content", *_TAIL),
    31: (*_HEAD, "encryption_type", "content", *_TAIL),
    32: (*_HEAD, *_KINDS, "content", "new_group_key", *_TAIL),
}
DRAFT_LAYOUT: Final = (*_HEAD, *_KINDS, "content", *_TAIL)
DRAFT_EXAMPLES_LAYOUT: Final = tuple(name for name in DRAFT_LAYOUT if name != "group_key_id")
"""The examples in the draft lack one element of its own layout."""

MESSAGE_ID_LAYOUT: Final = (
    "stream_id", "stream_partition", "timestamp", "sequence_number", "publisher_id", "msg_chain_id",
)  # fmt: skip
