"""Messages of streams as websocket frames, in whatever versions a client asked for.

A message is stored and passed on as the text it came in. Where the client wants that very version the text is put into
its envelope as it is, which costs next to nothing; only otherwise is it read and written anew.
"""

import struct
from typing import Final, NamedTuple

from protocol.errors import Unsupported
from protocol.streamr import StreamMessage, parse_stream_message
from protocol.streamr.control import BroadcastMessage, ControlMessage, UnicastMessage
from protocol.streamr.json_text import encode_json

__all__ = ["LEGACY_VERSIONS", "Broadcast", "Versions", "text_frame", "unicast_frame"]

_FINAL_TEXT: Final = 0x81
_SHORT, _MEDIUM, _LONG = struct.Struct("!BB"), struct.Struct("!BBH"), struct.Struct("!BBQ")


class Versions(NamedTuple):
    """What a client wants everything to be written in."""

    control: int
    stream: int


LEGACY_VERSIONS: Final = Versions(0, 28)


def text_frame(text: str) -> bytes:
    """A whole websocket message in one unmasked frame, as a server sends it."""
    payload = text.encode()
    length = len(payload)
    if length < 126:
        return _SHORT.pack(_FINAL_TEXT, length) + payload
    if length < 65_536:
        return _MEDIUM.pack(_FINAL_TEXT, 126, length) + payload
    return _LONG.pack(_FINAL_TEXT, 127, length) + payload


class Broadcast:
    """A message on its way to its subscribers. Each form of it is made once, however many want it."""

    __slots__ = ("_frames", "message", "text")

    def __init__(self, message: StreamMessage, text: str) -> None:
        self.message = message
        self.text = text  # the message as it is stored, in its own version
        self._frames: dict[Versions, bytes | None] = {}

    def frame(self, versions: Versions) -> bytes | None:
        """The broadcast as a frame; None where these versions cannot hold the message."""
        if versions not in self._frames:
            self._frames[versions] = self._make_frame(versions)
        return self._frames[versions]

    def _make_frame(self, versions: Versions) -> bytes | None:
        control, stream = versions
        if control == 2 and stream == self.message.version:
            return text_frame(f'[2,0,"",{self.text}]')
        return _convert(BroadcastMessage(stream_message=self.message), versions)


def unicast_frame(text: str, request_id: str, versions: Versions) -> bytes | None:
    """A stored message as an answer to a resend; None where these versions cannot hold it."""
    if versions.control == 2 and text.startswith(f"[{versions.stream},"):
        return text_frame(f"[2,1,{encode_json(request_id)},{text}]")
    return _convert(UnicastMessage(request_id=request_id, stream_message=parse_stream_message(text)), versions)


def _convert(message: ControlMessage, versions: Versions) -> bytes | None:
    try:
        return text_frame(message.serialize(versions.control, stream_version=versions.stream))
    except Unsupported:
        return None
