"""The content of a message, opened: decrypted if there is a key for it, and its readings decoded."""

from typing import NamedTuple

from agent.operator.readings import readings_in
from protocol.errors import WireError
from protocol.iomessage import IoMessage
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import EncryptionType, StreamMessage


class Opened(NamedTuple):
    """A message with its decrypted content and the readings in it."""

    message: StreamMessage
    content: str
    readings: tuple[IoMessage, ...] = ()  # none: the content is something else


class Unreadable(NamedTuple):
    """A message whose readings cannot be decoded."""

    message: StreamMessage
    reason: str


class Locked(NamedTuple):
    """A message whose content cannot be decrypted."""

    message: StreamMessage
    reason: str


def open_message(message: StreamMessage, key: GroupKey | None, without_key: str) -> Opened | Unreadable | Locked:
    """Open a message with its key; `without_key` is the reason given where that is needed and None."""
    if message.encryption_type is EncryptionType.NONE:
        return open_content(message, message.content)
    if key is None:
        return Locked(message, without_key)
    try:
        content = decrypt_message(message, key).content
    except (WireError, ValueError) as problem:
        return Locked(message, str(problem))
    return open_content(message, content)


def open_content(message: StreamMessage, content: str) -> Opened | Unreadable:
    try:
        return Opened(message, content, readings_in(content))
    except WireError as problem:
        return Unreadable(message, str(problem))
