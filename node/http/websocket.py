"""One websocket connection: receives and sends frames, without interpreting them.

Sending never waits: what the client does not read at once is queued by the transport, and a client whose queue grows
beyond its limit is dropped. The protocol itself (RFC 6455) is that of the `websockets` library, without its I/O.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from node.limits import Limits
from node.serialization import text_frame

READ_BYTES: Final = 64 * 1024
MAX_OUTBOX_BYTES: Final = 256 * 1024


class MemoryBudget:
    """The memory that all connections together may use for data that is partly received or not yet sent.

    Each connection has its own limit, but many connections at their limits would use too much. If the budget is
    exceeded, each connection that uses more than its equal share is dropped. So the total is at most twice the budget,
    and other clients lose no connection.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._held: dict[Hashable, int] = {}
        self.held_bytes = 0

    def note(self, holder: Hashable, held_bytes: int) -> bool:
        """Record how much a connection holds now. Returns whether it may continue."""
        self.held_bytes += held_bytes - self._held.get(holder, 0)
        self._held[holder] = held_bytes
        return self.held_bytes <= self._budget_bytes or held_bytes <= self._budget_bytes // len(self._held)

    def release(self, holder: Hashable) -> None:
        self.held_bytes -= self._held.pop(holder, 0)


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
        self.was_slow = False  # dropped because it did not read what was sent
        self._reader = reader
        self._writer = writer
        self._transport = writer.transport
        self._protocol = protocol
        self._limits = limits
        self._budget = budget
        self._clock_s = clock_s
        self._loop = asyncio.get_running_loop()
        self._partial: bytearray | None = None  # the received frames of a message in several frames
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._received_at_s = self._active_at_s = clock_s()
        self._pinged = False
        self._closing_at_s: float | None = None

    async def messages(self) -> AsyncIterator[bytes]:
        """The messages of the client, until either side closes. Other tasks run between reads."""
        while True:
            self._flush()
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and (message := self._assemble(event)) is not None:
                    self._active_at_s = self._received_at_s
                    yield message
            self._note_memory()
            if self._protocol.state is not State.OPEN or not (data := await self._read()):
                return
            self._received_at_s, self._pinged = self._clock_s(), False
            self._protocol.receive_data(data)
            await asyncio.sleep(0)

    def send(self, text: str) -> None:
        self.send_frames(text_frame(text))

    def send_frames(self, frames: bytes) -> None:
        """Queue whole frames; those of one turn of the event loop are sent together.

        Drops the connection if too much is queued already.
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
        """Wait until the client has read most of what is queued. Drops a client that reads nothing for too long."""
        self._write_outbox()
        try:
            async with asyncio.timeout(self._limits.send_timeout_s):
                await self._writer.drain()
        except TimeoutError:
            self._drop_slow()
            raise ConnectionResetError("the client does not read what it requested") from None

    @property
    def is_open(self) -> bool:
        return self._protocol.state is State.OPEN and not self._transport.is_closing()

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Close the connection after sending what is queued."""
        self._write_outbox()
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
            self._closing_at_s = self._clock_s()
            self._flush()

    def abort(self) -> None:
        """End the connection at once, without a closing handshake."""
        self._transport.abort()

    def keep_alive(self) -> None:
        """Ping a silent client, drop one that does not respond, close one that is idle. To be called periodically."""
        now_s = self._clock_s()
        self._note_memory()
        if self._closing_at_s is not None:
            if now_s - self._closing_at_s > self._limits.close_timeout_s:
                self.abort()
        elif now_s - self._active_at_s > self._limits.idle_timeout_s:
            self.close(CloseCode.GOING_AWAY, "idle")
        elif self._pinged and now_s - self._received_at_s > 2 * self._limits.ping_interval_s:
            self.abort()
        elif not self._pinged and now_s - self._received_at_s > self._limits.ping_interval_s and self.is_open:
            self._pinged = True
            self._protocol.send_ping(b"")
            self._flush()

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    def _flush(self) -> None:
        """Send what the protocol itself has to send: pings, pongs and the close frame."""
        for data in self._protocol.data_to_send():
            self._write_outbox()
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                with contextlib.suppress(OSError):  # the client has closed the connection already
                    self._transport.write_eof()

    def _assemble(self, frame: Frame) -> bytes | None:
        """The whole message when its last frame has arrived. `websockets` bounds its size."""
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
        may_continue = self._budget.note(self, queued + received)
        if queued > self._limits.max_outgoing_bytes or not may_continue:
            self._drop_slow()

    def _drop_slow(self) -> None:
        self.was_slow = True
        self.abort()
