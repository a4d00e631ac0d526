"""One version's message as another version's, where nothing is lost that its reader needs.

Converting down drops what the target cannot say. Three losses are refused, for they would deceive the reader:

| from | to | what would be lost |
|---|---|---|
| 32 | 32 draft, 31 and below | a new group key: it is signed, so the signature would no longer hold |
| 31, 32 | 30 and below | the encryption type: ciphertext would pass for content |
| 30 and above | 29 | what an ETH signature covers: nobody could check it (28 drops the signature itself) |
"""

from typing import TYPE_CHECKING

from protocol.errors import Unsupported
from protocol.streamr.checks import FieldError, refuse
from protocol.streamr.stream_parts import (
    LEGACY_VERSIONS,
    STREAM_VERSIONS,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    fields_lacking_in,
    legacy_message_id,
)

if TYPE_CHECKING:
    from protocol.streamr.stream_message import StreamMessage


def convert_stream_message(message: "StreamMessage", version: int, *, draft: bool) -> "StreamMessage":
    """The same message in another version. Raises: `Unsupported` where that version cannot hold it."""
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


def _refuse_deceiving_loss(message: "StreamMessage", version: int, lacking: dict[str, object]) -> None:
    if "new_group_key" in lacking and message.new_group_key is not None:
        raise FieldError("new_group_key", "would be lost, and the signature with it")
    if "encryption_type" in lacking and message.encryption_type is not EncryptionType.NONE:
        raise FieldError("encryption_type", "would be lost, and ciphertext would pass for content")
    if "message_type" in lacking and message.message_type is not MessageType.MESSAGE:
        raise FieldError("message_type", f"{message.message_type.name} does not exist there")
    if version == 29 and message.legacy is None and message.signature_type is SignatureType.ETH:
        raise FieldError("signature", "could not be checked: it covers what version 29 lacks")


def _identity(message: "StreamMessage", version: int) -> dict[str, object]:
    """Offsets stand in for references, and references for nothing: an offset says nothing about time."""
    if version not in LEGACY_VERSIONS:
        return {"legacy": None}
    previous = message.prev_msg_ref
    return {
        "message_id": legacy_message_id(message.message_id, version),
        "legacy": message.legacy
        or LegacyOffsets(offset=message.message_id.timestamp, previous_offset=previous.timestamp if previous else None),
    }
