"""The server: HTTP/1.1 by `h11`, websocket by `websockets`, both without their I/O, on asyncio streams.

Of the servers measured (docs/operations.md) this is the smallest that reads request bodies. A connection starts as
HTTP; a request to upgrade on one of the `endpoints` makes it a websocket for the rest of its life.
"""

import asyncio
import logging
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol, cast

import h11
from websockets.datastructures import Headers
from websockets.frames import CloseCode
from websockets.http11 import Request as UpgradeRequest
from websockets.protocol import State
from websockets.server import ServerProtocol

from node.counters import Counters
from node.errors import Refused, StorageError
from node.http.memory_budget import MemoryBudget
from node.http.messages import Request, Response, error_response, json_response, parse_target
from node.http.routing import Router
from node.http.websocket import WebsocketConnection
from node.limits import Limits

__all__ = ["HttpServer", "Upgrade", "WebsocketEndpoint"]

MAX_HEAD_BYTES: Final = 16 * 1024
READ_BYTES: Final = 64 * 1024
KEEPER_INTERVAL_S: Final = 1.0
CLOSING_S: Final = 2.0
BACKLOG: Final = 256

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """How an endpoint accepts: who talks to the client from now on, and what headers the client gets first."""

    serve: Callable[[WebsocketConnection], Awaitable[None]]
    headers: Mapping[str, str] = field(default_factory=dict)


class WebsocketEndpoint(Protocol):
    def upgrade(self, request: Request) -> Upgrade:
        """Accept a client, or not. Raises: `Refused`."""


class _HttpConnection:
    """The HTTP part of a connection's life. `deadline_s` is when the keeper ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.deadline_s = float("inf")
        self.is_busy = False

    async def next_event(self) -> h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(READ_BYTES))
        return event

    def send(self, event: h11.Event) -> None:
        data = self.http.send(event)
        if data:
            self.writer.write(data)


class HttpServer:
    def __init__(
        self,
        router: Router,
        endpoints: Mapping[str, WebsocketEndpoint],
        *,
        limits: Limits,
        counters: Counters,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = router
        self._endpoints = endpoints
        self._limits = limits
        self._counters = counters
        self._clock_s = clock_s
        self.budget = MemoryBudget(limits.max_buffered_bytes)
        self._http: set[_HttpConnection] = set()
        self._websockets: set[WebsocketConnection] = set()
        self._per_address: Tally[str] = Tally()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # one for each connection

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen. The address and the port, which the system chose where 0 was asked for."""
        self._server = await asyncio.start_server(self._serve_connection, host, port, limit=READ_BYTES, backlog=BACKLOG)
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def stop(self) -> None:
        """Take no more connections and close those there are."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._websockets):
            connection.close(CloseCode.GOING_AWAY, "the node stops")
        for http in tuple(self._http):
            if not http.is_busy:
                http.writer.close()
        await self._wait_for_connections()
        for connection in tuple(self._websockets):
            connection.abort()
        for http in tuple(self._http):
            http.writer.transport.abort()
        await self._wait_for_connections()

    async def _wait_for_connections(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_S)

    async def keep_forever(self) -> None:
        """Ping, time out and account for every connection, now and then."""
        while True:
            await asyncio.sleep(KEEPER_INTERVAL_S)
            for connection in tuple(self._websockets):
                connection.keep_alive()
            now_s = self._clock_s()
            for http in tuple(self._http):
                if http.deadline_s < now_s:
                    http.writer.transport.abort()

    # --- one connection ---

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("local",))[0])
        if sum(self._per_address.values()) >= self._limits.max_connections or (
            self._per_address[peer] >= self._limits.max_connections_per_address
        ):
            writer.transport.abort()
            return
        self._per_address[peer] += 1
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        try:
            await self._serve_http(_HttpConnection(reader, writer), peer)
        except ConnectionError:
            pass  # the client went away: nothing is left to say to it
        except Exception:
            log.exception("a connection failed; peer=%s", peer)
        finally:
            self._tasks.discard(task)
            self._per_address[peer] -= 1
            if not self._per_address[peer]:
                del self._per_address[peer]
            writer.close()

    async def _serve_http(self, connection: _HttpConnection, peer: str) -> None:
        self._http.add(connection)
        try:
            upgrade = await self._answer_requests(connection, peer)
        finally:
            self._http.discard(connection)
        if upgrade is not None:
            await self._serve_websocket(connection, *upgrade, peer=peer)

    async def _answer_requests(self, connection: _HttpConnection, peer: str) -> tuple[ServerProtocol, Upgrade] | None:
        """Answer one request after the other, until the client leaves, breaks the protocol, or upgrades."""
        while True:
            connection.deadline_s = self._clock_s() + self._limits.keep_alive_timeout_s
            try:
                request = await self._read_request(connection, peer)
                if request is None:
                    return None
                connection.is_busy, connection.deadline_s = True, float("inf")
                self._counters.http_requests += 1
                if request.path in self._endpoints:
                    return await self._upgrade(connection, request)
                await self._respond(connection, request.method, await self._answer(request))
            except h11.RemoteProtocolError as problem:
                await self._complain(connection, problem)
                return None
            except Refused as problem:
                await self._respond(connection, "GET", error_response(problem))
            connection.is_busy = False
            if connection.http.our_state is not h11.DONE or connection.http.their_state is not h11.DONE:
                return None
            connection.http.start_next_cycle()

    async def _read_request(self, connection: _HttpConnection, peer: str) -> Request | None:
        head = await connection.next_event()
        if not isinstance(head, h11.Request):
            return None
        connection.deadline_s = self._clock_s() + self._limits.request_timeout_s
        path, query = parse_target(head.target.decode("ascii", "replace"))
        return Request(
            method=head.method.decode("ascii", "replace"),
            path=path,
            query=query,
            headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
            body=await self._read_body(connection),
            peer=peer,
        )

    async def _read_body(self, connection: _HttpConnection) -> bytes:
        body = bytearray()
        if connection.http.they_are_waiting_for_100_continue:
            connection.send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
        while isinstance(event := await connection.next_event(), h11.Data):
            body += event.data
            if len(body) > self._limits.max_message_bytes or not self.budget.note(connection, len(body)):
                raise h11.RemoteProtocolError("the body is too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self.budget.release(connection)
        return bytes(body)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._router.answer(request)
        except Refused as problem:
            return error_response(problem)
        except StorageError:
            return json_response({"error": "The storage failed; try again later"}, HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception:
            log.exception("a request failed; method=%s path=%s", request.method, request.path[:200])
            return json_response({"error": "Internal error"}, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _complain(self, connection: _HttpConnection, problem: h11.RemoteProtocolError) -> None:
        """Tell a client that breaks HTTP what is wrong, as far as that is still possible."""
        self.budget.release(connection)
        if connection.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = problem.error_status_hint or HTTPStatus.BAD_REQUEST
            await self._respond(connection, "GET", json_response({"error": str(problem)}, status))

    async def _respond(self, connection: _HttpConnection, method: str, response: Response) -> None:
        if response.status >= HTTPStatus.BAD_REQUEST:
            self._counters.http_errors += 1
        headers = {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff", **response.headers}
        if isinstance(response.body, bytes):
            headers["Content-Length"] = str(len(response.body))
        reason = HTTPStatus(response.status).phrase.encode()
        connection.send(h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason))
        if method != "HEAD":
            await self._send_body(connection, response)
        connection.send(h11.EndOfMessage())
        await self._drain(connection)

    async def _send_body(self, connection: _HttpConnection, response: Response) -> None:
        if isinstance(response.body, bytes):
            connection.send(h11.Data(data=response.body))
            return
        async for data in response.body:
            connection.send(h11.Data(data=data))
            await self._drain(connection)

    async def _drain(self, connection: _HttpConnection) -> None:
        connection.deadline_s = self._clock_s() + self._limits.send_timeout_s
        await connection.writer.drain()
        connection.deadline_s = float("inf")

    # --- websockets ---

    async def _upgrade(self, connection: _HttpConnection, request: Request) -> tuple[ServerProtocol, Upgrade] | None:
        upgrade = self._endpoints[request.path].upgrade(request)
        protocol = ServerProtocol(state=State.OPEN, max_size=self._limits.max_message_bytes)
        answer = protocol.accept(UpgradeRequest(request.path, Headers(request.headers)))
        if answer.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            await self._respond(connection, "GET", Response(status=answer.status_code, body=bytes(answer.body or b"")))
            return None
        for name, value in upgrade.headers.items():
            answer.headers[name] = value
        trailing_data, _ = connection.http.trailing_data
        connection.writer.write(answer.serialize())
        if trailing_data:
            protocol.receive_data(trailing_data)
        return protocol, upgrade

    async def _serve_websocket(
        self, http: _HttpConnection, protocol: ServerProtocol, upgrade: Upgrade, *, peer: str
    ) -> None:
        connection = WebsocketConnection(
            http.reader,
            http.writer,
            protocol,
            peer=peer,
            limits=self._limits,
            budget=self.budget,
            clock_s=self._clock_s,
        )
        self._websockets.add(connection)
        self._counters.websocket_connections += 1
        try:
            await upgrade.serve(connection)
        finally:
            self._websockets.discard(connection)
            self._counters.websocket_connections -= 1
            self._counters.slow_clients_dropped += connection.was_slow
            self.budget.release(connection)
