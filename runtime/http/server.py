"""The HTTP server: accepts connections, has their requests answered by a service, and ends them."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Protocol

from protocol.errors import HeadgateError
from runtime.http.connection import Connection
from runtime.http.connection_table import ConnectionTable, HttpCounts
from runtime.http.messages import ClientGone, HttpError, HttpLimits, Request, Response, Upgrade
from runtime.stopping import end_tasks

BACKLOG: Final = 512
END_S: Final = 20.0  # for cancelled tasks: some wait for a thread that is writing
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

log = logging.getLogger(__name__)


class Service(Protocol):
    """Answers the requests of a server."""

    async def answer(self, request: Request) -> Response | Upgrade:
        """The response. Calls `request.admit` once the client is one to be protected. Raises: ClientGone, HttpError."""

    def refuse(self, error: HttpError) -> Response:
        """The response to what the server cannot or must not pass on: malformed, too large, too slow, no place left."""


class HttpServer:
    """`name` is how the log calls it. `headers` are added to every response."""

    def __init__(
        self,
        service: Service,
        limits: HttpLimits,
        *,
        name: str,
        headers: Mapping[str, str] = NO_HEADERS,
        tls: ssl.SSLContext | None = None,
        counts: HttpCounts | None = None,
    ) -> None:
        self._service = service
        self._limits = limits
        self._name = name
        self._headers = headers
        self._tls = tls
        self._counts = counts or HttpCounts()
        self._table = ConnectionTable(limits, self._counts)
        self._server: asyncio.Server | None = None
        self._is_stopping = False

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns the address and the port, which the system chooses for 0. Raises: OSError."""
        self._server = await asyncio.start_server(
            self._accept, host, port, limit=self._limits.buffer_bytes, backlog=BACKLOG
        )
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def stop(self) -> None:
        """Accept no more, close what is not admitted, and give the rest `stop_grace_s` to finish."""
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        self._table.push_out_unprotected()
        if self._limits.stop_grace_s and (tasks := self._table.tasks):
            await asyncio.wait(tasks, timeout=self._limits.stop_grace_s)
        await end_tasks(self._table.tasks, END_S)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._limits, self._headers)
        if self._tls is not None:
            connection.pause()
        task = asyncio.create_task(self._serve(connection), name=f"{self._name}: connection")
        self._table.add(connection, connection.peer, task)
        task.add_done_callback(lambda _: self._forget(connection))

    def _forget(self, connection: Connection) -> None:
        connection.abort()
        self._table.remove(connection)

    async def _serve(self, connection: Connection) -> None:
        self._counts.accepted += 1
        self._counts.open += 1
        try:
            if self._tls is not None:
                await connection.secure(self._tls)
            if self._table.has_place(connection):
                while await self._serve_request(connection):
                    pass
                await connection.close()
            else:
                error = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "all connections are in use")
                await self._respond(connection, self._service.refuse(error), to_head=False)
        except ClientGone:
            pass
        except HeadgateError as error:
            log.error("%s: a response was cut short; problem=%s", self._name, error)  # noqa: TRY400 - the text says it
        except Exception:
            self._counts.faults += 1
            log.exception("%s: internal error; only this connection is dropped", self._name)
        finally:
            self._counts.open -= 1

    async def _serve_request(self, connection: Connection) -> bool:
        """Whether another may follow."""
        to_head = False
        with self._table.one_request(connection):
            try:
                request = await connection.next_request(lambda: self._table.protect(connection))
                to_head = request.method == "HEAD"
                response = await self._answer(request)
            except HttpError as error:
                response = self._service.refuse(error)
            if isinstance(response, Upgrade):
                await response.serve(connection.reader, connection.writer, connection.take_rest())
                return False
            if not isinstance(response.body, bytes) and not to_head:
                await self._stream(connection, response, response.body)
                return False
        await self._respond(connection, response, to_head=to_head)
        return connection.can_go_on and not self._is_stopping

    async def _answer(self, request: Request) -> Response | Upgrade:
        try:
            return await self._service.answer(request)
        except (ClientGone, HttpError):
            raise
        except Exception:
            self._counts.faults += 1
            log.exception("%s: internal error; method=%s path=%.100s", self._name, request.method, request.path)
            return self._service.refuse(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log"))

    async def _stream(self, connection: Connection, response: Response, pieces: AsyncIterator[bytes]) -> None:
        self._counts.responses[response.status] += 1
        await connection.stream(response, pieces)

    async def _respond(self, connection: Connection, response: Response, *, to_head: bool) -> None:
        self._counts.responses[response.status] += 1
        await connection.respond(response, to_head=to_head, closes=self._is_stopping)
