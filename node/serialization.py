"""Messages of streams as websocket frames, in whatever versions a client asked for.

A message is stored and passed on as the text it came in. Where the client wants that very version the text is put into
its envelope as it is, which costs next to nothing; only otherwise is it read and written anew.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from node.streams import StreamPart
from protocol.errors import Unsupported
from protocol.streamr import StreamMessage, parse_stream_message
from protocol.streamr.control import BroadcastMessage, ControlMessage, UnicastMessage
from protocol.streamr.json_text import encode_json

__all__ = ["LEGACY_API", "Broadcast", "BroadcastRun", "Frames", "Versions", "text_frame", "unicast_frames"]

_FINAL_TEXT: Final = 0x81
_SHORT, _MEDIUM, _LONG = struct.Struct("!BB"), struct.Struct("!BBH"), struct.Struct("!BBQ")


class Versions(NamedTuple):
    """What a client wants everything to be written in."""

    control: int
    stream: int


LEGACY_API: Final = Versions(0, 28)


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
    """Messages as frames in one piece, and what became of each."""

    data: bytes
    messages: int  # that it holds
    unsupported: int  # messages that the client's versions cannot hold, and that were left out


class Broadcast(NamedTuple):
    """A message on its way to its subscribers."""

    message: StreamMessage
    text: str  # the message as it is stored, in its own version

    @property
    def part(self) -> StreamPart:
        return StreamPart(*self.message.message_id[:2])

    @property
    def control_text(self) -> str:
        """The broadcast of control version 2 that holds the message as it is."""
        return f'[2,0,"",{self.text}]'


class BroadcastRun:
    """Messages of one partition, in their order. They are put into frames once for all who want the same versions."""

    __slots__ = ("_frames", "broadcasts")

    def __init__(self, broadcasts: Sequence[Broadcast]) -> None:
        self.broadcasts = broadcasts
        self._frames: dict[Versions, Frames] = {}

    def frames(self, versions: Versions) -> Frames:
        if versions not in self._frames:
            self._frames[versions] = _join(_broadcast_frame(broadcast, versions) for broadcast in self.broadcasts)
        return self._frames[versions]


def unicast_frames(texts: Iterable[str], request_id: str, versions: Versions) -> Frames:
    """Stored messages as an answer to a resend."""
    return _join(_unicast_frame(text, request_id, versions) for text in texts)


def _broadcast_frame(broadcast: Broadcast, versions: Versions) -> bytes | None:
    if versions.control == 2 and versions.stream == broadcast.message.version:
        return text_frame(broadcast.control_text)
    return _convert(BroadcastMessage(stream_message=broadcast.message), versions)


def _unicast_frame(text: str, request_id: str, versions: Versions) -> bytes | None:
    if versions.control == 2 and text.startswith(f"[{versions.stream},"):
        return text_frame(f"[2,1,{encode_json(request_id)},{text}]")
    return _convert(UnicastMessage(request_id=request_id, stream_message=parse_stream_message(text)), versions)


def _convert(message: ControlMessage, versions: Versions) -> bytes | None:
    """None where these versions cannot hold the message."""
    try:
        return text_frame(message.serialize(versions.control, stream_version=versions.stream))
    except Unsupported:
        return None


def _join(frames: Iterable[bytes | None]) -> Frames:
    made = list(frames)
    whole = [frame for frame in made if frame is not None]
    return Frames(b"".join(whole), len(whole), len(made) - len(whole))
