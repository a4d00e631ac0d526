"""The message of a stream, as one value for every version of the stream layer.

| version | elements | what it adds |
|---|---|---|
| 28 | 9 | time to live, offsets instead of references; no publisher |
| 29 | 12 | publisher, signature |
| 30 | 7 | message id, reference to the previous message, message type |
| 31 | 8 | encryption type |
| 32 draft | 10 | content type, group key id; only the first document on version 32 shows it; no program sent it |
| 32 | 11 | new group key |

A field that a version lacks has its neutral value, so that the rest of the program has one kind of message.

A message is converted to another version where its reader loses nothing essential. Converting down drops the fields
that the target lacks. Three conversions are refused, because they would deceive the reader:

| from | to | what would be lost |
|---|---|---|
| 32 | 32 draft, 31 and below | a new group key: it is signed, so the signature would no longer hold |
| 31, 32 | 30 and below | the encryption type: ciphertext would pass for content |
| 30 and above | 29 | fields that an ETH signature covers: it could not be checked (28 drops the signature itself) |
"""

from typing import Any, Final, NamedTuple, Self

import orjson

from protocol.errors import Unsupported
from protocol.streamr.checks import FILLED_TEXT, OPTIONAL_TEXT, FieldError, refuse, shown
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message.parts import (
    DRAFT_LAYOUT,
    LATEST_STREAM_VERSION,
    LAYOUTS,
    LEGACY_VERSIONS,
    STREAM_VERSIONS,
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    fields_lacking_in,
    legacy_message_id,
)

_ROTATE: Final = MessageType.GROUP_KEY_ROTATE
_NEW_KEY: Final = EncryptionType.NEW_KEY_AND_AES


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

    `content` is the text that was signed, unchanged. It is not parsed here; with an `encryption_type` it is ciphertext
    in hexadecimal. `version` is the version in which the message was read or will be written, `draft` whether in the
    layout of the draft of 32. `legacy` is present exactly in versions 28 and 29.

    Fields are checked without a call, as in `protocol.streamr.ids` and for the same reason.
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
        if type(message_id) is not MessageID:
            refuse("message_id", message_id, "a message id")
        if type(content) is not str or not content:
            refuse("content", content, FILLED_TEXT)
        if type(message_type) is not MessageType or (message_type is _ROTATE and not draft):
            refuse("message_type", message_type, "a message type of its version")
        if type(content_type) is not ContentType:
            refuse("content_type", content_type, "a content type")
        if type(encryption_type) is not EncryptionType or (encryption_type is _NEW_KEY and version != 31):
            refuse("encryption_type", encryption_type, "an encryption type of its version")
        if type(signature_type) is not SignatureType:
            refuse("signature_type", signature_type, "a signature type")
        if group_key_id is not None and type(group_key_id) is not str:
            refuse("group_key_id", group_key_id, OPTIONAL_TEXT)
        if signature is not None and type(signature) is not str:
            refuse("signature", signature, OPTIONAL_TEXT)
        if new_group_key is not None and type(new_group_key) is not EncryptedGroupKey:
            refuse("new_group_key", new_group_key, "an encrypted group key or null")
        if prev_msg_ref is not None and type(prev_msg_ref) is not MessageRef:
            refuse("prev_msg_ref", prev_msg_ref, "a message reference or null")
        if prev_msg_ref is not None and prev_msg_ref >= message_id[2:4]:
            raise FieldError("prev_msg_ref", f"{prev_msg_ref[:]} is not older than the message, {message_id[2:4]}")
        fields = (
            message_id, content, prev_msg_ref, message_type, content_type, encryption_type, group_key_id,
            new_group_key, signature_type, signature, version, draft, legacy,
        )  # fmt: skip
        self = tuple.__new__(cls, fields)
        if version != LATEST_STREAM_VERSION or draft or legacy:
            self._check_older_version()
        return self

    def replace(self, **changes: Any) -> Self:
        """The same message with some fields changed, checked like any new one."""
        return type(self)(**{**self._asdict(), **changes})

    def serialize(self, version: int | None = None, *, draft: bool = False) -> str:
        """The message as JSON: as it is, or converted to `version` where that is given.

        Raises: `Unsupported` if that version cannot hold it, or a number is too large for its readers.
        """
        return encode_json(self.elements(version, draft=draft))

    def elements(self, version: int | None = None, *, draft: bool = False) -> list[Any]:
        """The array that `serialize` writes; control messages contain stream messages in this form."""
        if version is None and not draft:
            return stream_message_elements(self)
        return stream_message_elements(convert_stream_message(self, version or LATEST_STREAM_VERSION, draft=draft))

    def _check_older_version(self) -> None:
        if self.version not in STREAM_VERSIONS or (self.draft and self.version != LATEST_STREAM_VERSION):
            refuse("version", self.version, "28, 29, 30, 31 or 32, and 32 for a draft")
        for name, neutral in fields_lacking_in(self.version, draft=self.draft).items():
            if getattr(self, name) != neutral:
                refuse(name, getattr(self, name), f"{shown(neutral)} in version {self.version}")
        if (self.legacy is not None) != (self.version in LEGACY_VERSIONS):
            raise FieldError("legacy", "must be present in versions 28 and 29, and absent in others")
        if self.version in LEGACY_VERSIONS:
            self._check_legacy()

    def _check_legacy(self) -> None:
        if self.message_id != legacy_message_id(self.message_id, self.version):
            raise FieldError("message_id", f"has what version {self.version} lacks")
        try:
            orjson.loads(self.content)
        except orjson.JSONDecodeError as problem:
            raise FieldError("content", f"is not JSON: {problem}") from None


def stream_message_elements(message: StreamMessage) -> list[Any]:
    """The message as the array to be written, in its own version."""
    if message.version == 32 and not message.draft:
        return _current_elements(message)
    layout = DRAFT_LAYOUT if message.draft else LAYOUTS[message.version]
    fields = _legacy_fields(message) if message.legacy else _fields(message)
    return [fields[name] for name in layout]


def _current_elements(message: StreamMessage) -> list[Any]:
    """The elements of version 32 by hand instead of by the table: the hot path."""
    (
        message_id, content, previous, message_type, content_type, encryption_type, group_key_id,
        new_group_key, signature_type, signature, version, _, _,
    ) = message  # fmt: skip
    return [
        version,
        [*message_id],
        previous and [*previous],
        message_type,
        content_type,
        encryption_type,
        group_key_id,
        content,
        new_group_key and new_group_key.serialized,
        signature_type,
        signature,
    ]


def _fields(message: StreamMessage) -> dict[str, Any]:
    previous = message.prev_msg_ref
    return {
        **message._asdict(),
        "message_id": [*message.message_id],
        "prev_msg_ref": previous and [*previous],
    }


def _legacy_fields(message: StreamMessage) -> dict[str, Any]:
    legacy = message.legacy
    assert legacy is not None
    return {
        **message._asdict(),
        **message.message_id._asdict(),
        "publisher_id": message.message_id.publisher_id or None,
        "ttl": legacy.ttl,
        "offset": legacy.offset,
        "previous_offset": legacy.previous_offset,
    }


def convert_stream_message(message: StreamMessage, version: int, *, draft: bool) -> StreamMessage:
    """The message in another version. Raises: `Unsupported` if that version cannot hold it."""
    if (version, draft) == (message.version, message.draft):
        return message
    try:
        if version not in STREAM_VERSIONS:
            refuse("version", version, "28, 29, 30, 31 or 32")
        lacking = fields_lacking_in(version, draft=draft)
        _refuse_deceiving_loss(message, version, lacking)
        return message.replace(**{**lacking, **_identity(message, version), "version": version, "draft": draft})
    except FieldError as problem:
        raise Unsupported(f"cannot be written as version {version}: {problem}") from None


def _refuse_deceiving_loss(message: StreamMessage, version: int, lacking: dict[str, object]) -> None:
    if "new_group_key" in lacking and message.new_group_key is not None:
        raise FieldError("new_group_key", "would be lost, and the signature with it")
    if "encryption_type" in lacking and message.encryption_type is not EncryptionType.NONE:
        raise FieldError("encryption_type", "would be lost, and ciphertext would pass for content")
    if "message_type" in lacking and message.message_type is not MessageType.MESSAGE:
        raise FieldError("message_type", f"{message.message_type.name} does not exist there")
    if version == 29 and message.legacy is None and message.signature_type is SignatureType.ETH:
        raise FieldError("signature", "could not be checked: it covers what version 29 lacks")


def _identity(message: StreamMessage, version: int) -> dict[str, object]:
    """The identity in another version. References become offsets, but not the reverse: offsets have no time."""
    if version not in LEGACY_VERSIONS:
        return {"legacy": None}
    previous = message.prev_msg_ref
    return {
        "message_id": legacy_message_id(message.message_id, version),
        "legacy": message.legacy
        or LegacyOffsets(offset=message.message_id.timestamp, previous_offset=previous.timestamp if previous else None),
    }
