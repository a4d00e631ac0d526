"""The HTTP part of a connection's life: requests read whole and bounded, responses written whole or bit by bit.

The protocol itself (HTTP/1.1) is `h11`'s, which does no I/O.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import h11

from node.http.memory_budget import MemoryBudget
from node.http.messages import Request, Response, json_response, parse_target
from node.limits import Limits

__all__ = ["READ_BYTES", "HttpConnection"]

MAX_HEAD_BYTES: Final = 16 * 1024
READ_BYTES: Final = 64 * 1024
NEVER_S: Final = float("inf")


class HttpConnection:
    """`deadline_s` is when somebody should end it, for it does not look at the clock by itself."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        peer: str,
        limits: Limits,
        budget: MemoryBudget,
        clock_s: Callable[[], float],
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.peer = peer
        self.deadline_s = NEVER_S
        self.is_busy = False  # whether a request is being answered
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._limits = limits
        self._budget = budget
        self._clock_s = clock_s

    async def read_request(self) -> Request | None:
        """The next request; None where the client has left. Raises: `h11.RemoteProtocolError`, `Refused`."""
        self._set_deadline(self._limits.keep_alive_timeout_s)
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        self._set_deadline(self._limits.request_timeout_s)
        path, query = parse_target(head.target.decode("ascii", "replace"))
        body = await self._read_body()
        self.is_busy, self.deadline_s = True, NEVER_S
        return Request(
            method=head.method.decode("ascii", "replace"),
            path=path,
            query=query,
            headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
            body=body,
            peer=self.peer,
        )

    async def respond(self, response: Response, *, with_body: bool = True) -> None:
        headers = {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff", **response.headers}
        if isinstance(response.body, bytes):
            headers["Content-Length"] = str(len(response.body))
        reason = HTTPStatus(response.status).phrase.encode()
        self._send(h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason))
        if with_body:
            await self._send_body(response)
        self._send(h11.EndOfMessage())
        await self._drain()

    async def complain(self, problem: h11.RemoteProtocolError) -> None:
        """Tell a client that breaks HTTP what is wrong, as far as that is still possible."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = problem.error_status_hint or HTTPStatus.BAD_REQUEST
            await self.respond(json_response({"error": str(problem)}, status))

    def start_next_request(self) -> bool:
        """Whether the client may send another request on this connection."""
        self.is_busy = False
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    @property
    def trailing_data(self) -> bytes:
        """What came after a request to upgrade: it belongs to the new protocol."""
        return self._http.trailing_data[0]

    def abort(self) -> None:
        self.writer.transport.abort()

    def _set_deadline(self, seconds: float) -> None:
        self.deadline_s = self._clock_s() + seconds

    async def _next_event(self) -> h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self.reader.read(READ_BYTES))
        return event

    async def _read_body(self) -> bytes:
        body = bytearray()
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
        try:
            while isinstance(event := await self._next_event(), h11.Data):
                body += event.data
                if len(body) > self._limits.max_message_bytes or not self._budget.note(self, len(body)):
                    raise h11.RemoteProtocolError("the body is too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        finally:
            self._budget.release(self)
        return bytes(body)

    async def _send_body(self, response: Response) -> None:
        if isinstance(response.body, bytes):
            self._send(h11.Data(data=response.body))
            return
        async for data in response.body:
            self._send(h11.Data(data=data))
            await self._drain()

    def _send(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self.writer.write(data)

    async def _drain(self) -> None:
        self._set_deadline(self._limits.send_timeout_s)
        await self.writer.drain()
        self.deadline_s = NEVER_S
