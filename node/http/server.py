"""The server: it takes connections, watches over them, and ends them.

HTTP is by `h11` and websocket by `websockets`, both without their I/O, on asyncio streams: of the servers measured
(docs/node.md) this is the smallest that reads request bodies. A connection starts as HTTP; a request to upgrade
on one of the `endpoints` makes it a websocket for the rest of its life.
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
from node.http.connection import READ_BYTES, HttpConnection
from node.http.memory_budget import MemoryBudget
from node.http.messages import Request, Response, error_response, json_response
from node.http.routing import Router
from node.http.websocket import WebsocketConnection
from node.limits import Limits

__all__ = ["HttpServer", "Upgrade", "WebsocketEndpoint"]

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
        self._http: set[HttpConnection] = set()
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
            http.abort()
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
                    http.abort()

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
            await self._serve_http(self._http_connection(reader, writer, peer))
        except ConnectionError:
            pass  # the client went away: nothing is left to say to it
        except StorageError as problem:
            log.error("an answer was cut short; problem=%s", problem)  # noqa: TRY400 - the text says it all
            writer.transport.abort()
        except Exception:
            log.exception("a connection failed; peer=%s", peer)
        finally:
            await self._close(writer)
            self._tasks.discard(task)
            self._per_address[peer] -= 1
            if not self._per_address[peer]:
                del self._per_address[peer]

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Let the client take what is still queued for it, but not for ever."""
        writer.close()
        try:
            async with asyncio.timeout(self._limits.close_timeout_s):
                await writer.wait_closed()
        except OSError:  # a time-out is one, too
            writer.transport.abort()

    def _http_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str) -> HttpConnection:
        return HttpConnection(reader, writer, peer=peer, limits=self._limits, budget=self.budget, clock_s=self._clock_s)

    async def _serve_http(self, connection: HttpConnection) -> None:
        self._http.add(connection)
        try:
            upgrade = await self._answer_requests(connection)
        finally:
            self._http.discard(connection)
        if upgrade is not None:
            await self._serve_websocket(connection, *upgrade)

    async def _answer_requests(self, connection: HttpConnection) -> tuple[ServerProtocol, Upgrade] | None:
        """Answer one request after the other, until the client leaves, breaks the protocol, or upgrades."""
        while True:
            try:
                request = await connection.read_request()
                if request is None:
                    return None
                self._counters.http_requests += 1
                if request.path in self._endpoints:
                    return await self._upgrade(connection, request)
                await self._respond(connection, await self._answer(request), with_body=request.method != "HEAD")
            except h11.RemoteProtocolError as problem:
                self._counters.http_errors += 1
                await connection.complain(problem)
                return None
            except Refused as problem:
                await self._respond(connection, error_response(problem))
            if not connection.start_next_request():
                return None

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

    async def _respond(self, connection: HttpConnection, response: Response, *, with_body: bool = True) -> None:
        if response.status >= HTTPStatus.BAD_REQUEST:
            self._counters.http_errors += 1
        await connection.respond(response, with_body=with_body)

    # --- websockets ---

    async def _upgrade(self, connection: HttpConnection, request: Request) -> tuple[ServerProtocol, Upgrade] | None:
        upgrade = self._endpoints[request.path].upgrade(request)
        protocol = ServerProtocol(state=State.OPEN, max_size=self._limits.max_message_bytes)
        answer = protocol.accept(UpgradeRequest(request.path, Headers(request.headers)))
        if answer.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            await self._respond(connection, Response(status=answer.status_code, body=bytes(answer.body or b"")))
            return None
        for name, value in upgrade.headers.items():
            answer.headers[name] = value
        connection.writer.write(answer.serialize())
        if connection.trailing_data:
            protocol.receive_data(connection.trailing_data)
        return protocol, upgrade

    async def _serve_websocket(self, http: HttpConnection, protocol: ServerProtocol, upgrade: Upgrade) -> None:
        connection = WebsocketConnection(
            http.reader,
            http.writer,
            protocol,
            peer=http.peer,
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
