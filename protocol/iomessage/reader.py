"""Reads binary ioMessages from a byte stream as they arrive."""

from typing import Final

from protocol.errors import Corrupt, Truncated, WireError
from protocol.iomessage.as_bytes import HEADER_BYTES, message_size
from protocol.iomessage.message import IoMessage

DEFAULT_MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024


class IoMessageReader:
    """Decodes messages from pieces of any size. It holds at most one incomplete message.

    Nothing marks the beginning of a message, so reading cannot resume behind an error: the first error is final, and
    every later call raises it again. Offsets in errors count from the start of the stream.
    """

    def __init__(self, *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._pending = bytearray()
        self._needed = HEADER_BYTES
        self._consumed = 0
        self._error: WireError | None = None

    def feed(self, data: bytes) -> list[IoMessage]:
        """The messages that `data` completes. Those before an error are returned first; the next call raises it.

        Raises:
            Unsupported: another version of ioMessage.
            Corrupt: a length is impossible, or a message is larger than allowed.
        """
        self._raise_error()
        self._pending += data
        messages: list[IoMessage] = []
        try:
            while len(self._pending) >= self._needed:
                self._advance(messages)
        except WireError as error:
            self._error = error
            self._pending.clear()
        if not messages:
            self._raise_error()
        return messages

    def close(self) -> None:
        """End the stream.

        Raises:
            Truncated: a message is incomplete.
            Unsupported, Corrupt: an earlier error, again.
        """
        self._raise_error()
        if self._pending:
            at = self._consumed + len(self._pending)
            raise Truncated(f"the stream ends {len(self._pending)} bytes into a message", offset=at)

    def _advance(self, messages: list[IoMessage]) -> None:
        """Read the size of the message from its header, or the message."""
        size = self._message_size()
        if len(self._pending) < size:
            self._needed = size
            return
        messages.append(IoMessage.from_bytes(bytes(self._pending[:size])))
        del self._pending[:size]
        self._consumed += size
        self._needed = HEADER_BYTES

    def _message_size(self) -> int:
        try:
            size = message_size(bytes(self._pending[:HEADER_BYTES]))
        except WireError as error:
            raise type(error)(error.problem, offset=self._consumed + (error.offset or 0)) from None
        if size > self._max_message_bytes:
            problem = f"a message of {size} bytes is larger than the {self._max_message_bytes} allowed here"
            raise Corrupt(problem, offset=self._consumed)
        return size

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
