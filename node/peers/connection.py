"""A websocket connection to a peer, with a bounded queue of outgoing messages."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.datastructures import Headers, MultipleValuesError
from websockets.exceptions import ConnectionClosed, WebSocketException

from protocol.errors import Corrupt
from runtime.backoff import Backoff

MAX_FRAME_BYTES: Final = 2 * 1024 * 1024  # twice the largest message of a client
MAX_QUEUED_CHARACTERS: Final = 16 * 1024 * 1024
LOW_QUEUE_CHARACTERS: Final = 1024 * 1024
PING_INTERVAL_S: Final = 5.0
PING_TIMEOUT_S: Final = 10.0
OPEN_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 2.0
RECONNECT: Final = Backoff(first_s=0.25, max_s=30.0)

_quiet_log = logging.getLogger("node.peers.sockets")
_quiet_log.setLevel(logging.WARNING)
_quiet_log.addFilter(lambda record: "handshake" not in str(record.msg))  # any client can cause one, any number of times

SOCKET_OPTIONS: Final[dict[str, Any]] = {
    "max_size": MAX_FRAME_BYTES,
    "ping_interval": PING_INTERVAL_S,
    "ping_timeout": PING_TIMEOUT_S,
    "open_timeout": OPEN_TIMEOUT_S,
    "close_timeout": CLOSE_TIMEOUT_S,
    "compression": None,
    "logger": _quiet_log,
}


class PeerConnection:
    def __init__(self, websocket: Connection, max_queued_characters: int = MAX_QUEUED_CHARACTERS) -> None:
        self._websocket = websocket
        self._max_queued_characters = max_queued_characters
        self._queue: deque[str] = deque()
        self._queued_characters = 0
        self._has_queued = asyncio.Event()
        self._has_space = asyncio.Event()
        self._has_space.set()

    def send(self, text: str) -> None:
        """Queue a message. A peer that reads too slowly is cut off, so that others need not wait for it."""
        self._queue.append(text)
        self._queued_characters += len(text)
        self._has_queued.set()
        if self._queued_characters > LOW_QUEUE_CHARACTERS:
            self._has_space.clear()
        if self._queued_characters > self._max_queued_characters:
            self.abort()

    async def wait_for_space(self) -> None:
        """Wait until little is queued. Without waiting, the queue of a slow peer overflows, and it is cut off."""
        await self._has_space.wait()

    async def run(self, receive: Callable[[str | bytes], Awaitable[None]]) -> None:
        """Send and receive messages until the connection ends."""
        writer = asyncio.create_task(self._write())
        try:
            async for text in self._websocket:
                await receive(text)
        except ConnectionClosed:
            pass
        finally:
            writer.cancel()
            await asyncio.wait([writer])
            await self._websocket.close()

    def abort(self) -> None:
        """End the connection without a closing handshake."""
        self._websocket.transport.abort()

    async def close(self, code: int, reason: str) -> None:
        await self._websocket.close(code, reason)

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._has_queued.wait()
                while self._queue:
                    text = self._queue.popleft()
                    self._queued_characters -= len(text)
                    if self._queued_characters <= LOW_QUEUE_CHARACTERS:
                        self._has_space.set()
                    await self._websocket.send(text)
                self._has_queued.clear()


@contextlib.asynccontextmanager
async def dial(url: str, headers: Mapping[str, str]) -> AsyncIterator[ClientConnection]:
    """Opens a connection to a peer. Raises: OSError if the peer cannot be reached, whatever the reason."""
    connecting = connect(url, additional_headers=dict(headers), proxy=None, **SOCKET_OPTIONS)
    async with contextlib.AsyncExitStack() as stack:
        try:
            websocket = await stack.enter_async_context(connecting)
        except (WebSocketException, TimeoutError, UnicodeError) as problem:  # UnicodeError: an invalid host name
            raise ConnectionError(f"{url}: {problem}") from problem
        yield websocket


def single_headers(headers: Headers) -> dict[str, str]:
    """The Streamr headers, by name in lower case. Raises: `Corrupt` if one is given twice."""
    try:
        return {name.lower(): headers[name] for name in headers if name.lower().startswith("streamr-")}
    except MultipleValuesError as name:
        raise Corrupt(f"handshake: header {name} is given more than once") from None
