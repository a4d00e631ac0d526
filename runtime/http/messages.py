"""Requests, responses and limits, as the services that use the HTTP server see them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from protocol.errors import HeadgateError

UNLIMITED: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one server. Times are in seconds."""

    max_connections: int = 256
    max_connections_per_address: int = 64
    max_head_bytes: int = 16 * 1024
    max_target_bytes: int = 16 * 1024
    max_body_bytes: int = UNLIMITED
    buffer_bytes: int = 64 * 1024  # a connection holds at most twice this of what it received and has not read
    handshake_timeout_s: float = 10.0  # of TLS
    head_timeout_s: float = 20.0  # for a whole request head, and for the next one on a connection that is kept open
    body_timeout_s: float = 30.0  # of waiting for a body, or for each `min_body_bytes` of it
    min_body_bytes: int = UNLIMITED
    send_timeout_s: float = 20.0  # for the client to read one piece of a response
    linger_s: float = 2.0  # for the client to read the end of the last response
    stop_grace_s: float = 2.0  # for requests that are being answered when the server stops


class HttpError(HeadgateError):
    """A request that HTTP or a limit forbids. The one reaction: answer with its status and close the connection."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class ClientGone(HeadgateError):
    """The client closed the connection, broke off or stopped reading. The one reaction: drop the connection."""


async def _no_more() -> bytes:
    return b""


class Body:
    """The body of a request: iterate over its pieces as they arrive, or `read` it whole.

    Both raise HttpError (above a limit, too slow, malformed) and ClientGone.
    """

    def __init__(self, receive: Callable[[], Awaitable[bytes]] = _no_more, *, is_held_back: bool = False) -> None:
        self._receive = receive
        self.is_held_back = is_held_back  # the client sends it only after a 100 Continue, which reading sends

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._receive()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self])


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    target: str  # as it was sent; begins with "/"
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    peer: str = ""  # the address of the client's machine
    body: Body = field(default_factory=Body)
    admit: Callable[[], None] = lambda: None  # protects the connection from being closed in favour of a new one

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def content_length(self) -> int | None:
        text = self.headers.get("content-length")
        return None if text is None else int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`body` is all of it, or a generator whose pieces are sent one by one; the connection closes after a generator."""

    status: int = HTTPStatus.OK
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """Switches the connection to another protocol.

    `serve` gets the streams and the bytes that followed the request. It sends the response (101) itself.
    """

    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
