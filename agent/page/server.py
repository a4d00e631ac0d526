"""Sockets: requests in, responses out, with a bound on every wait, buffer and number of connections.

A client that sends its request drop by drop, or none, or does not take its answer, is dropped after a fixed time. When
all places are taken, the connection that has waited longest for a request gives way to the new one, so that idle or
hostile clients do not keep others out; connections that are being answered stay.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final

from agent.page.request import MAX_BODY_BYTES, MAX_HEAD_BYTES, Refusal, Request, RequestReader
from agent.page.response import Response, encode_head, text_response

__all__ = ["MAX_CONNECTIONS", "REQUEST_TIMEOUT_S", "Handler", "HttpServer"]

MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_S: Final = 15.0  # for a whole request, from the end of the one before
SEND_TIMEOUT_S: Final = 15.0
READ_BYTES: Final = 4096
BACKLOG: Final = 16

Handler = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class HttpServer:
    """`group` owns the task of each connection; `answer` may raise, which costs its client a 500 and the log a line."""

    def __init__(self, answer: Handler, group: asyncio.TaskGroup) -> None:
        self._answer = answer
        self._group = group
        self._connections: dict[asyncio.StreamWriter, None] = {}
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # for a request; the longest first
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """The port. Raises: OSError."""
        self._server = await asyncio.start_server(
            self._accept, host, port, limit=MAX_HEAD_BYTES + MAX_BODY_BYTES, backlog=BACKLOG
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """No new connection, and an end to all there are."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS and not self._push_out():
            writer.transport.abort()
            return
        self._connections[writer] = None
        self._group.create_task(self._serve(reader, writer), name="page: connection")

    def _push_out(self) -> bool:
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self._forget(longest)
        return True

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._connections.pop(writer, None)
        self._waiting.pop(writer, None)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                await self._converse(reader, writer)
                await _finish(writer)
        except Exception:  # whatever is wrong here must not stop the agent
            log.exception("fault of the status page")
        finally:
            self._forget(writer)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = RequestReader()
        while (request := await self._read_request(requests, reader, writer)) is not None:
            response = await self._respond(request)
            is_head = isinstance(request, Request) and request.method == "HEAD"
            if not is_head and not isinstance(response.body, bytes):
                await _send_stream(reader, writer, response, response.body)
                return
            keeps_alive = isinstance(request, Request) and request.keeps_alive
            writer.write(encode_head(response, keeps_alive=keeps_alive))
            if not is_head and isinstance(response.body, bytes):
                writer.write(response.body)
            await _drain(writer)
            if not keeps_alive:
                return

    async def _read_request(
        self, requests: RequestReader, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | Refusal | None:
        """None: the client has left. Raises: TimeoutError, OSError."""
        self._waiting[writer] = None
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            while (request := requests.next()) is None:
                data = await reader.read(READ_BYTES)
                if not data:
                    break
                requests.feed(data)
        self._waiting.pop(writer, None)
        return request

    async def _respond(self, request: Request | Refusal) -> Response:
        if isinstance(request, Refusal):
            return text_response(request.status, request.problem)
        try:
            return await self._answer(request)
        except Exception:
            log.exception("fault of the status page; path=%.100s", request.path)
            return text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a fault; the log tells more")


async def _send_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, response: Response, pieces: AsyncIterator[bytes]
) -> None:
    """To its end, or until the client leaves. Raises: TimeoutError if the client does not take it, OSError."""
    sending = asyncio.create_task(_send_pieces(writer, response, pieces), name="page: stream")
    leaving = asyncio.create_task(_wait_for_end(reader), name="page: end of stream")
    try:
        done, _ = await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    for task in done:
        task.result()


async def _send_pieces(writer: asyncio.StreamWriter, response: Response, pieces: AsyncIterator[bytes]) -> None:
    writer.write(encode_head(response, keeps_alive=False))
    async with contextlib.aclosing(pieces) as open_pieces:  # type: ignore[type-var]  # they are generators
        async for piece in open_pieces:
            writer.write(piece)
            await _drain(writer)


async def _wait_for_end(reader: asyncio.StreamReader) -> None:
    while await reader.read(READ_BYTES):
        pass  # who is being answered has nothing to say


async def _drain(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await writer.drain()


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Let the last answer arrive before the connection is gone."""
    if writer.can_write_eof():
        writer.write_eof()
    writer.close()
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await writer.wait_closed()
