"""One client's connection: requests in, answers out, with a bound on every wait and every buffer. h11 knows HTTP."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import h11

from ingest.collector.errors import Refused
from ingest.collector.settings import Limits
from protocol.shipping import Refusal

MAX_HEAD_BYTES = 16 * 1024
READ_BYTES = 512 * 1024
BUFFER_BYTES = 128 * 1024  # the stream holds at most twice this, and what one read of the socket brought
HANDSHAKE_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 20.0
LINGER_S = 2.0
LINGER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case

    @property
    def content_length(self) -> int | None:
        """h11 has checked that it is a number, and the only one."""
        text = self.headers.get("content-length")
        return None if text is None else int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class ClientGone(Exception):
    """The client closed the connection or broke off in the middle; there is no one left to answer."""


class Pace:
    """A client sends `min_bytes` in every `patience_s` that it keeps us waiting, or it is too slow."""

    def __init__(self, limits: Limits) -> None:
        self._patience_s = limits.patience_s
        self._min_bytes = limits.min_patience_bytes
        self._waited_s = 0.0
        self._received = 0

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._patience_s - self._waited_s)

    def note(self, received: int, waited_s: float) -> None:
        self._received += received
        self._waited_s += waited_s
        if self._received >= self._min_bytes:
            self._received, self._waited_s = 0, 0.0


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._reader = reader
        self._writer = writer
        self._tcp = cast("asyncio.Transport", writer.transport)
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    @property
    def can_go_on(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def hold_back(self) -> None:
        """Read nothing yet: the first bytes are for `secure`. To be called before the loop turns again."""
        self._tcp.pause_reading()

    async def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on. Raises: ClientGone if the client does not, or not in time."""
        try:
            await self._writer.start_tls(context, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S)
        except OSError as error:
            raise ClientGone from error

    @property
    def waits_for_permission(self) -> bool:
        """Whether the client holds its body back until it is told to go on (`Expect: 100-continue`)."""
        return self._http.they_are_waiting_for_100_continue

    async def next_request(self) -> Request:
        """Raises: ClientGone, also when the client is silent for too long; Refused for what is not HTTP."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        try:
            async with asyncio.timeout(self._limits.head_timeout_s):
                event = await self._next_event()
        except TimeoutError:
            raise ClientGone from None
        if not isinstance(event, h11.Request):
            raise ClientGone
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        return Request(method=event.method.decode("latin-1"), path=event.target.decode("latin-1"), headers=headers)

    async def body(self) -> AsyncIterator[bytes]:
        """Pieces as they come in. Raises: ClientGone, Refused for a client that is too slow."""
        await self._tell_to_go_on()
        pace = Pace(self._limits)
        while True:
            started_s = time.monotonic()
            try:
                async with asyncio.timeout(pace.remaining_s):
                    event = await self._next_event()
            except TimeoutError:
                raise Refused(
                    Refusal.TOO_SLOW, f"fewer bytes than {self._limits.min_patience_bytes} came in time"
                ) from None
            if not isinstance(event, h11.Data):
                return
            pace.note(len(event.data), time.monotonic() - started_s)
            yield event.data

    async def answer(self, answer: Answer, *, to_head: bool, close: bool) -> None:
        """An answer that comes before all of the request was read is the last one.

        Raises: ClientGone if the client does not take it in time.
        """
        headers = {"Content-Length": str(len(answer.body)), "Cache-Control": "no-store", **answer.headers}
        if close or not self._request_is_read():
            headers["Connection"] = "close"
        events: list[h11.Event] = [h11.Response(status_code=answer.status, headers=list(headers.items()))]
        if answer.body and not to_head:
            events.append(h11.Data(data=answer.body))
        await self._send(*events, h11.EndOfMessage())

    def abort(self) -> None:
        """Drop it at once."""
        self._tcp.abort()

    async def close(self) -> None:
        """Let the last answer arrive: what the client still sends is read and thrown away, but not for long."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_S):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                    await self._throw_away(LINGER_BYTES)
                self._writer.close()
                await self._writer.wait_closed()
        self.abort()

    def _request_is_read(self) -> bool:
        """Whether the request is at its end, once what is here already of its body is skipped."""
        with suppress(h11.RemoteProtocolError):
            while isinstance(self._http.next_event(), h11.Data):
                pass
        return self._http.their_state is h11.DONE

    async def _throw_away(self, max_bytes: int) -> None:
        while max_bytes > 0 and (data := await self._reader.read(READ_BYTES)):
            max_bytes -= len(data)

    async def _tell_to_go_on(self) -> None:
        if self.waits_for_permission:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What comes next, never NEED_DATA. Raises: ClientGone, Refused for what is not HTTP."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ_BYTES))
        except h11.RemoteProtocolError as error:
            if self._reader.at_eof():
                raise ClientGone from error
            refusal = Refusal.HEAD_TOO_LARGE if error.error_status_hint == 431 else Refusal.BAD_REQUEST
            raise Refused(refusal, str(error)) from error
        except OSError as error:
            raise ClientGone from error
        return event

    async def _send(self, *events: h11.Event) -> None:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
                await self._writer.drain()
        except (OSError, TimeoutError, h11.LocalProtocolError) as error:
            raise ClientGone from error
