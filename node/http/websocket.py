"""One websocket connection: frames in, frames out, nothing of what they mean.

Sending never waits: what the client does not take at once is queued by the transport, and a client whose queue grows
beyond its limit is dropped. The protocol itself (RFC 6455) is that of the `websockets` library, without its I/O.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from node.http.memory_budget import MemoryBudget
from node.limits import Limits
from node.serialization import text_frame

READ_BYTES: Final = 64 * 1024
MAX_OUTBOX_BYTES: Final = 256 * 1024


class WebsocketConnection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        protocol: ServerProtocol,
        *,
        peer: str,
        limits: Limits,
        budget: MemoryBudget,
        clock_s: Callable[[], float],
    ) -> None:
        self.peer = peer
        self.was_slow = False  # whether it was dropped for not taking what it was sent
        self._reader = reader
        self._writer = writer
        self._transport = writer.transport
        self._protocol = protocol
        self._limits = limits
        self._budget = budget
        self._clock_s = clock_s
        self._loop = asyncio.get_running_loop()
        self._partial: bytearray | None = None  # of a message in several frames, what has come of it
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._heard_at_s = self._active_at_s = clock_s()
        self._pinged = False
        self._closing_at_s: float | None = None

    async def messages(self) -> AsyncIterator[bytes]:
        """What the client sends, message by message, until either side closes. Lets others run between reads."""
        while True:
            self._flush()
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and (message := self._assemble(event)) is not None:
                    self._active_at_s = self._heard_at_s
                    yield message
            self._note_memory()
            if self._protocol.state is not State.OPEN or not (data := await self._read()):
                return
            self._heard_at_s, self._pinged = self._clock_s(), False
            self._protocol.receive_data(data)
            await asyncio.sleep(0)

    def send(self, text: str) -> None:
        self.send_frames(text_frame(text))

    def send_frames(self, frames: bytes) -> None:
        """Queue whole frames; all that is queued in one turn of the event loop goes out in one piece.

        Drops the connection where too much is queued already.
        """
        if not self._outbox:
            self._loop.call_soon(self._write_outbox)
        self._outbox.append(frames)
        self._outbox_bytes += len(frames)
        if self._outbox_bytes > MAX_OUTBOX_BYTES:
            self._write_outbox()

    def _write_outbox(self) -> None:
        if self._outbox and self.is_open:
            self._transport.write(b"".join(self._outbox))
            self._active_at_s = self._clock_s()
            self._note_memory()
        self._outbox.clear()
        self._outbox_bytes = 0

    async def drain(self) -> None:
        """Wait until the client took most of what is queued; drop it where it takes nothing for too long."""
        self._write_outbox()
        try:
            async with asyncio.timeout(self._limits.send_timeout_s):
                await self._writer.drain()
        except TimeoutError:
            self._drop_slow()
            raise ConnectionResetError("the client does not take what it asked for") from None

    @property
    def is_open(self) -> bool:
        return self._protocol.state is State.OPEN and not self._transport.is_closing()

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Say goodbye; what is queued is still sent."""
        self._write_outbox()
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
            self._closing_at_s = self._clock_s()
            self._flush()

    def abort(self) -> None:
        """End at once, with no further word."""
        self._transport.abort()

    def keep_alive(self) -> None:
        """Called now and then: pings a silent client, drops one that does not answer, closes one that is idle."""
        now_s = self._clock_s()
        self._note_memory()
        if self._closing_at_s is not None:
            if now_s - self._closing_at_s > self._limits.close_timeout_s:
                self.abort()
        elif now_s - self._active_at_s > self._limits.idle_timeout_s:
            self.close(CloseCode.GOING_AWAY, "idle")
        elif self._pinged and now_s - self._heard_at_s > 2 * self._limits.ping_interval_s:
            self.abort()
        elif not self._pinged and now_s - self._heard_at_s > self._limits.ping_interval_s and self.is_open:
            self._pinged = True
            self._protocol.send_ping(b"")
            self._flush()

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    def _flush(self) -> None:
        """What the protocol itself has to say: pongs, pings, the end."""
        for data in self._protocol.data_to_send():
            self._write_outbox()
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                with contextlib.suppress(OSError):  # the client has left before we could say goodbye
                    self._transport.write_eof()

    def _assemble(self, frame: Frame) -> bytes | None:
        """A whole message, once its last frame has come. `websockets` bounds the sum of its frames."""
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return None
        if frame.fin and self._partial is None:
            return bytes(frame.data)
        if self._partial is None:
            self._partial = bytearray()
        self._partial += frame.data
        if not frame.fin:
            return None
        message, self._partial = bytes(self._partial), None
        return message

    def _note_memory(self) -> None:
        queued = self._transport.get_write_buffer_size()
        received = len(self._protocol.reader.buffer) + len(self._partial or b"")
        may_go_on = self._budget.note(self, queued + received)
        if queued > self._limits.max_outgoing_bytes or not may_go_on:
            self._drop_slow()

    def _drop_slow(self) -> None:
        self.was_slow = True
        self.abort()
