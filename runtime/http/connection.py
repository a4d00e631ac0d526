"""One connection of a client: reads requests and sends responses, with a limit on every wait."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Final, cast

from runtime.http.messages import Body, ClientGone, HttpError, HttpLimits, Request, Response
from runtime.http.protocol import Head, HttpProtocol
from runtime.stopping import run_until_first_ends

MAX_LINGER_BYTES: Final = 1024 * 1024


class Patience:
    """Limits the waiting for a body: `min_body_bytes` must arrive in each `body_timeout_s` of waiting."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._waited_s = 0.0
        self._received = 0

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._limits.body_timeout_s - self._waited_s)

    def note(self, received: int, waited_s: float) -> None:
        self._received += received
        self._waited_s += waited_s
        if self._received >= self._limits.min_body_bytes:
            self._received, self._waited_s = 0, 0.0


class Connection:
    """`headers` are added to every response."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: HttpLimits,
        headers: Mapping[str, str],
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._tcp = cast("asyncio.Transport", writer.transport)  # below TLS, once that is started
        self._limits = limits
        self._headers = headers
        self._http = HttpProtocol(limits)
        self._patience = Patience(limits)
        peer = writer.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) and peer else ""

    @property
    def can_go_on(self) -> bool:
        """Whether another request may follow."""
        return self._http.can_go_on

    def pause(self) -> None:
        """Read nothing yet: the first bytes are for `secure`. To be called before the event loop runs again."""
        self._tcp.pause_reading()

    async def secure(self, context: ssl.SSLContext) -> None:
        """Start TLS. Raises: ClientGone if the client does not, or not in time."""
        try:
            await self.writer.start_tls(context, ssl_handshake_timeout=self._limits.handshake_timeout_s)
        except OSError as error:
            raise ClientGone from error

    async def next_request(self, admit: Callable[[], None]) -> Request:
        """Raises: ClientGone, also for a client that is silent for too long; HttpError."""
        try:
            async with asyncio.timeout(self._limits.head_timeout_s):
                while (head := self._http.next_head()) is None:
                    self._http.feed(await self._receive())
        except TimeoutError:
            raise ClientGone from None
        self._patience = Patience(self._limits)
        return self._request(head, admit)

    async def respond(self, response: Response, *, to_head: bool, closes: bool) -> None:
        """Send a response; its body is bytes, or not sent. A request whose body was not received closes, too.

        Raises: ClientGone if the client does not read it in time.
        """
        self._http.skip_received_body()
        await self._send(self._http.encode_response(response, self._headers, to_head=to_head, closes=closes))

    async def stream(self, response: Response, pieces: AsyncIterator[bytes]) -> None:
        """Send a response whose body is a generator, until its end or until the client leaves; then the connection
        must be closed. Raises: ClientGone, and whatever the generator raises.
        """
        await run_until_first_ends(http_stream=self._send_pieces(response, pieces), http_end=self._wait_for_end())

    def take_rest(self) -> bytes:
        """The bytes that followed the request, for the protocol that the connection is upgraded to."""
        self._http.skip_received_body()
        return self._http.take_rest()

    def abort(self) -> None:
        self._tcp.abort()

    async def close(self) -> None:
        """Let the last response arrive: what the client still sends is read and dropped, for a short time."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._limits.linger_s):
                if self.writer.can_write_eof():
                    self.writer.write_eof()
                    await self._drop_input(MAX_LINGER_BYTES)
                self.writer.close()
                await self.writer.wait_closed()
        self.abort()

    def _request(self, head: Head, admit: Callable[[], None]) -> Request:
        return Request(
            method=head.method,
            target=head.target,
            headers=head.headers,
            peer=self.peer,
            body=Body(self._next_piece, is_held_back=self._http.holds_body_back),
            admit=admit,
        )

    async def _next_piece(self) -> bytes:
        """Raises: ClientGone, HttpError."""
        if self._http.holds_body_back:
            await self._send(self._http.encode_continue())
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._patience.remaining_s):
                while (piece := self._http.next_data()) is None:
                    self._http.feed(await self._receive())
        except TimeoutError:
            raise HttpError(HTTPStatus.REQUEST_TIMEOUT, "the body is arriving too slowly") from None
        self._patience.note(len(piece), time.monotonic() - started_s)
        return piece

    async def _send_pieces(self, response: Response, pieces: AsyncIterator[bytes]) -> None:
        self._http.skip_received_body()
        await self._send(self._http.encode_response(response, self._headers, to_head=False, closes=True))
        async with aclosing(pieces) as open_pieces:  # type: ignore[type-var]  # they are generators
            async for piece in open_pieces:
                await self._send(self._http.encode_data(piece))
        await self._send(self._http.encode_end())

    async def _wait_for_end(self) -> None:
        with suppress(OSError):
            while await self.reader.read(self._limits.buffer_bytes):
                pass

    async def _drop_input(self, max_bytes: int) -> None:
        while max_bytes > 0 and (data := await self.reader.read(self._limits.buffer_bytes)):
            max_bytes -= len(data)

    async def _receive(self) -> bytes:
        try:
            data = await self.reader.read(2 * self._limits.buffer_bytes)
        except OSError as error:
            raise ClientGone from error
        if not data:
            raise ClientGone
        return data

    async def _send(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.send_timeout_s):
                self.writer.write(data)
                await self.writer.drain()
        except (OSError, TimeoutError) as error:
            raise ClientGone from error
