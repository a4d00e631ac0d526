"""Stream messages as websocket frames, in the versions that a client requested.

A message is stored and delivered as the text that was received. If the client requested that version, the text is put
into its envelope unchanged, which is cheap; otherwise it is parsed and converted.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from node.storage.arrival_queries import StoredText
from node.streams import StreamPart
from protocol.errors import Unsupported, WireError
from protocol.streamr.control import BroadcastMessage, UnicastMessage
from protocol.streamr.control.envelope import broadcast_text, unicast_text
from protocol.streamr.stream_message import LegacyOffsets, SignatureType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.message import convert_stream_message
from protocol.streamr.stream_message.parts import LEGACY_VERSIONS
from protocol.streamr.stream_message.peek import text_is_of_version

_FINAL_TEXT: Final = 0x81
_SHORT, _MEDIUM, _LONG = struct.Struct("!BB"), struct.Struct("!BBH"), struct.Struct("!BBQ")


class Versions(NamedTuple):
    """The protocol versions that a client requested."""

    control: int
    stream: int
    may_show_signature: bool = False  # whether a signed message may be one of version 29 in place of 28

    def stream_version_of(self, message: StreamMessage) -> int:
        is_legacy_signed = message.signature_type is SignatureType.ETH_LEGACY
        return 29 if self.may_show_signature and is_legacy_signed else self.stream


LEGACY_API: Final = Versions(0, 28, may_show_signature=True)


def text_frame(text: str) -> bytes:
    """A whole websocket message in one unmasked frame, as a server sends it."""
    payload = text.encode()
    length = len(payload)
    if length < 126:
        return _SHORT.pack(_FINAL_TEXT, length) + payload
    if length < 65_536:
        return _MEDIUM.pack(_FINAL_TEXT, 126, length) + payload
    return _LONG.pack(_FINAL_TEXT, 127, length) + payload


class Frames(NamedTuple):
    """Messages as frames, and how many of them."""

    data: bytes
    messages: int
    unsupported: int  # messages left out, because the versions have no form for them


class Broadcast(NamedTuple):
    """A message on its way to its subscribers."""

    message: StreamMessage
    text: str  # the message as it is stored, in its own version
    offset: int | None = None  # its number for legacy clients, once it is stored
    previous_offset: int | None = None

    @property
    def part(self) -> StreamPart:
        return StreamPart(*self.message.message_id[:2])

    @property
    def control_text(self) -> str:
        """The broadcast of control version 2 that holds the message as it is."""
        return broadcast_text(self.text)


def readable_broadcasts(stored: Iterable[str]) -> Iterator[Broadcast]:
    """Stored messages, without those that are damaged."""
    for text in stored:
        with suppress(WireError):
            yield Broadcast(parse_stream_message(text), text)


class BroadcastRun:
    """Messages of one partition, in order. Their frames are made once for all subscribers with the same versions."""

    __slots__ = ("_frames", "broadcasts")

    def __init__(self, broadcasts: Sequence[Broadcast]) -> None:
        self.broadcasts = broadcasts
        self._frames: dict[Versions, Frames] = {}

    def frames(self, versions: Versions) -> Frames:
        if versions not in self._frames:
            self._frames[versions] = _join(_broadcast_frame(broadcast, versions) for broadcast in self.broadcasts)
        return self._frames[versions]


def unicast_frames(texts: Iterable[str], request_id: str, versions: Versions) -> Frames:
    """Stored messages as the response to a resend."""
    return _join(_unicast_frame(text, request_id, versions) for text in texts)


def legacy_unicast_frames(texts: Sequence[StoredText], request_id: str, versions: Versions) -> Frames:
    """Stored messages with their offsets as the response to a resend of the legacy API."""
    previous = [None, *(text.offset for text in texts)]
    return _join(
        _unicast_frame(text, request_id, versions, LegacyOffsets(offset=offset, previous_offset=before))
        for (offset, text), before in zip(texts, previous, strict=False)
    )


def _broadcast_frame(broadcast: Broadcast, versions: Versions) -> bytes | None:
    if versions.control == 2 and versions.stream == broadcast.message.version:
        return text_frame(broadcast.control_text)
    offsets = LegacyOffsets(offset=broadcast.offset, previous_offset=broadcast.previous_offset)
    return _convert(broadcast.message, versions, offsets if broadcast.offset else None, BroadcastMessage)


def _unicast_frame(
    text: str, request_id: str, versions: Versions, offsets: LegacyOffsets | None = None
) -> bytes | None:
    if versions.control == 2 and text_is_of_version(text, versions.stream):
        return text_frame(unicast_text(request_id, text))
    return _convert(parse_stream_message(text), versions, offsets, partial(UnicastMessage, request_id=request_id))


def _convert(
    message: StreamMessage,
    versions: Versions,
    offsets: LegacyOffsets | None,
    envelope: Callable[..., BroadcastMessage | UnicastMessage],
) -> bytes | None:
    """None if these versions have no form for the message."""
    version = versions.stream_version_of(message)
    try:
        if version in LEGACY_VERSIONS:
            message = _legacy_message(message, version, offsets)
        return text_frame(envelope(stream_message=message).serialize(versions.control, stream_version=version))
    except Unsupported:
        return None


def _legacy_message(message: StreamMessage, version: int, offsets: LegacyOffsets | None) -> StreamMessage:
    """Convert to a version without chains and references, and so without a current signature, which covers them.

    Raises: `Unsupported`.
    """
    if message.signature_type is SignatureType.ETH:
        message = message.replace(signature_type=SignatureType.NONE, signature=None)
    converted = convert_stream_message(message, version, draft=False)
    return converted if offsets is None else converted.replace(legacy=offsets)


def _join(frames: Iterable[bytes | None]) -> Frames:
    made = list(frames)
    whole = [frame for frame in made if frame is not None]
    return Frames(b"".join(whole), len(whole), len(made) - len(whole))
