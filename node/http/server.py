"""The node's web server: REST requests to the router, websockets to their endpoints.

A connection starts as HTTP (`runtime.http`). A request to upgrade on one of the `endpoints` makes it a websocket, by
the `websockets` library without its I/O, for the rest of its life.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, Protocol

from websockets.datastructures import Headers
from websockets.frames import CloseCode
from websockets.http11 import Request as UpgradeRequest
from websockets.protocol import State
from websockets.server import ServerProtocol

from node.counters import Counters
from node.errors import Refused, StorageError
from node.http.messages import Request, Router, error_response, json_response, parse_query
from node.http.websocket import MemoryBudget, WebsocketConnection
from node.limits import Limits
from runtime import http

KEEP_ALIVE_INTERVAL_S: Final = 1.0
STOP_GRACE_S: Final = 2.0
HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """An accepted client: the function that serves its connection, and the headers of the response."""

    serve: Callable[[WebsocketConnection], Awaitable[None]]
    headers: Mapping[str, str] = field(default_factory=dict)


class WebsocketEndpoint(Protocol):
    def upgrade(self, request: Request) -> Upgrade:
        """Accept a client. Raises: `Refused`."""


class Guard(Protocol):
    """Decides by the head of a request whether its origin is allowed."""

    def check(self, request: Request) -> None:
        """Raises: `Refused`."""

    def preflight(self, request: Request) -> http.Response | None:
        """The response to a preflight request of a browser; None for any other request."""

    def headers(self, request: Request) -> dict[str, str]:
        """The headers to add to every response."""


class HttpServer:
    def __init__(
        self,
        router: Router,
        endpoints: Mapping[str, WebsocketEndpoint],
        *,
        guard: Guard,
        limits: Limits,
        counters: Counters,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guard = guard
        self._router = router
        self._endpoints = endpoints
        self._limits = limits
        self._counters = counters
        self._clock_s = clock_s
        self.budget = MemoryBudget(limits.max_buffered_bytes)
        self._websockets: set[WebsocketConnection] = set()
        self._server = http.HttpServer(self, _http_limits(limits), name="node", headers=HEADERS)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns the address and the port; the system chooses one for port 0. Raises: OSError."""
        return await self._server.start(host, port)

    async def stop(self) -> None:
        """Accept no more connections, and close the existing ones."""
        for connection in tuple(self._websockets):
            connection.close(CloseCode.GOING_AWAY, "the node stops")
        await self._server.stop()

    async def ping_forever(self) -> None:
        """Ping every websocket, close the idle ones and drop the dead ones, periodically."""
        while True:
            await asyncio.sleep(KEEP_ALIVE_INTERVAL_S)
            for connection in tuple(self._websockets):
                connection.keep_alive()

    async def answer(self, received: http.Request) -> http.Response | http.Upgrade:
        self._counters.http_requests += 1
        try:
            response = await self._respond(received)
        except Refused as problem:
            response = error_response(problem)
        except StorageError:
            failure = {"error": "The storage failed; try again later"}
            response = json_response(failure, HTTPStatus.SERVICE_UNAVAILABLE)
        return response if isinstance(response, http.Upgrade) else self._counted(response)

    def refuse(self, error: http.HttpError) -> http.Response:
        return self._counted(json_response({"error": str(error)}, error.status))

    async def _respond(self, received: http.Request) -> http.Response | http.Upgrade:
        """Raises: `Refused`, StorageError, HttpError."""
        request = Request(
            method=received.method,
            path=received.path,
            query=parse_query(received.query),
            headers=received.headers,
            peer=received.peer,
        )
        self._guard.check(request)
        request = replace(request, body=await self._read(received.body))
        received.admit()
        if request.path in self._endpoints:
            return self._upgrade(request)
        response = self._guard.preflight(request) or await self._route(request)
        return replace(response, headers={**response.headers, **self._guard.headers(request)})

    async def _route(self, request: Request) -> http.Response:
        """Errors are responses, too, so that a page of an allowed origin can read them."""
        try:
            return await self._router.answer(request)
        except Refused as problem:
            return error_response(problem)

    async def _read(self, pieces: http.Body) -> bytes:
        """Raises: HttpError if this body, or all bodies together, are too large."""
        body = bytearray()
        try:
            async for piece in pieces:
                body += piece
                if not self.budget.note(pieces, len(body)):
                    raise http.HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the node has no memory for this body")
        finally:
            self.budget.release(pieces)
        return bytes(body)

    def _counted(self, response: http.Response) -> http.Response:
        if response.status >= HTTPStatus.BAD_REQUEST:
            self._counters.http_errors += 1
        return response

    def _upgrade(self, request: Request) -> http.Response | http.Upgrade:
        """Raises: `Refused`."""
        upgrade = self._endpoints[request.path].upgrade(request)
        protocol = ServerProtocol(state=State.OPEN, max_size=self._limits.max_message_bytes)
        response = protocol.accept(UpgradeRequest(request.path, Headers(request.headers)))
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return http.Response(
                status=response.status_code, body=bytes(response.body or b""), headers={"Connection": "close"}
            )
        for name, value in upgrade.headers.items():
            response.headers[name] = value

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
            writer.write(response.serialize())
            if rest:
                protocol.receive_data(rest)
            connection = WebsocketConnection(
                reader,
                writer,
                protocol,
                peer=request.peer,
                limits=self._limits,
                budget=self.budget,
                clock_s=self._clock_s,
            )
            await self._serve_websocket(connection, upgrade)

        return http.Upgrade(serve=serve)

    async def _serve_websocket(self, connection: WebsocketConnection, upgrade: Upgrade) -> None:
        self._websockets.add(connection)
        self._counters.websocket_connections += 1
        try:
            with contextlib.suppress(ConnectionError):
                await upgrade.serve(connection)
        finally:
            self._websockets.discard(connection)
            self._counters.websocket_connections -= 1
            self._counters.slow_clients_dropped += connection.was_slow
            self.budget.release(connection)


def _http_limits(limits: Limits) -> http.HttpLimits:
    return http.HttpLimits(
        max_connections=limits.max_connections,
        max_connections_per_address=limits.max_connections_per_address,
        max_body_bytes=limits.max_message_bytes,
        head_timeout_s=limits.keep_alive_timeout_s,
        body_timeout_s=limits.request_timeout_s,
        send_timeout_s=limits.send_timeout_s,
        linger_s=limits.close_timeout_s,
        stop_grace_s=STOP_GRACE_S,
    )
