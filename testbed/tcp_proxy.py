"""A TCP proxy that simulates bad networks: it cuts connections, drops their data, and slows them down."""

import asyncio
import re
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024
SLOW_CHUNK_BYTES = 1024


class TcpProxy:
    """Between clients on `port` and a server. Tests can wait for the bytes and connections that passed."""

    def __init__(self, target_port: int, target_host: str = "127.0.0.1") -> None:
        self.port = 0
        self.connections = 0  # accepted so far
        self.passed_bytes = 0  # from clients to the server
        self._target = (target_host, target_port)
        self._bytes_per_s: int | None = None
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._stalled = False
        self.unanswered = 0  # responses that were cut off
        self._unanswerable: re.Pattern[bytes] | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections and cut all there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Close every connection, both ways."""
        tasks = list(self._open)
        for task in tasks:
            for writer in self._open.get(task, ()):
                writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stall(self) -> None:
        """Discard everything from now on, without closing: half-open connections."""
        self._stalled = True

    async def heal(self) -> None:
        """Let new connections pass. Existing ones are cut, because bytes of theirs were discarded."""
        self._stalled = False
        await self.cut()

    def slow(self, bytes_per_s: int | None) -> None:
        """Limit the rate of each direction of each connection; None: no limit."""
        self._bytes_per_s = bytes_per_s

    def withhold_responses(self, requests: str | None) -> None:
        """Cut a connection when the server responds to a request that matches; None: no more."""
        self._unanswerable = None if requests is None else re.compile(requests.encode())

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open[task] = writer, server_writer
        async with self._changed:
            self.connections += 1
            self._changed.notify_all()
        is_withheld = asyncio.Event()  # the response to the last request
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, server_writer, is_withheld, counts=True))
                group.create_task(self._pump(server_reader, writer, is_withheld, counts=False))
        except* OSError:
            pass
        finally:
            del self._open[task]
            for each in (writer, server_writer):
                each.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_withheld: asyncio.Event, *, counts: bool
    ) -> None:
        while data := await reader.read(SLOW_CHUNK_BYTES if self._bytes_per_s else CHUNK_BYTES):
            if self._stalled:
                continue
            if counts and self._unanswerable is not None and self._unanswerable.search(data):
                is_withheld.set()
            elif not counts and is_withheld.is_set():
                self.unanswered += 1
                raise ConnectionResetError("the response is withheld")
            if self._bytes_per_s is not None:
                await asyncio.sleep(len(data) / self._bytes_per_s)
            writer.write(data)
            await writer.drain()
            if counts:
                async with self._changed:
                    self.passed_bytes += len(data)
                    self._changed.notify_all()
        raise ConnectionResetError("one side has closed")
