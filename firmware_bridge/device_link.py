"""Moves bytes between a session and an open port; reopens a port that disappears when its device resets."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, Protocol

from firmware_bridge.device_requests import DeviceRequests
from firmware_bridge.events import Event
from firmware_bridge.reception import Moment
from firmware_bridge.session import HostSession
from protocol.errors import HeadgateError


class BytePort(Protocol):
    """An open port."""

    async def read(self, timeout_s: float) -> bytes:
        """At least one byte; b"" if none arrived in time."""

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


def read_clocks() -> Moment:
    return Moment(time.monotonic() * 1000, time.time_ns() // 1_000_000)


class DeviceLink(DeviceRequests):
    """A session on an open port. It must be pumped: a driver calls `pump` repeatedly; a tool uses `pumping`."""

    def __init__(self, port: BytePort, session: HostSession, clocks: Callable[[], Moment] = read_clocks) -> None:
        super().__init__(session, clocks, self.flush)
        self._port = port
        self._writing = asyncio.Lock()
        session.begin(clocks().steady_ms)

    async def pump(self, timeout_s: float) -> list[Event]:
        """The next events, or none within the timeout. Raises what the port raises."""
        events = self.session.tick(self._clocks())
        await self._flush_after(events)
        if events:
            return events
        wait_s = min(timeout_s, self.session.wait_ms(self._clocks().steady_ms) / 1000)
        data = await self._port.read(max(wait_s, 0.001))
        events = self.session.receive(data, self._clocks()) if data else []
        await self._flush_after(events)
        return events

    async def _flush_after(self, events: list[Event]) -> None:
        """Events must not be lost: if the port fails now, the next `pump` raises the error."""
        try:
            await self.flush()
        except HeadgateError:
            if not events:
                raise

    @contextlib.asynccontextmanager
    async def pumping(self, on_event: Callable[[Event], None] = lambda _: None) -> AsyncIterator["DeviceLink"]:
        """Pump for as long as the block lasts. An error of the pump ends the block."""

        async def pump() -> None:
            while True:
                for event in await self.pump(1.0):
                    on_event(event)

        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(pump())
                try:
                    yield self
                finally:
                    task.cancel()
        except BaseExceptionGroup as errors:  # of the pump or of the block; the caller gets the error itself
            raise errors.exceptions[0] from None

    async def commit(self, tokens: Iterable[int]) -> None:
        """These samples are durable. Raises what the port raises."""
        self.session.commit(tokens, self._clocks().steady_ms)
        await self.flush()

    def close(self) -> None:
        self._port.close()

    async def flush(self) -> None:
        """Write the session's output; one writer at a time, or frames would be mixed."""
        async with self._writing:
            if output := self.session.take_output():
                await self._port.write(output)


REOPEN_EVERY_S: Final = 0.25


class ReopeningPort:
    """A port that is reopened after a failure. While it is gone, reads are empty and writes are lost."""

    def __init__(self, port: BytePort, open_port: Callable[[], Awaitable[BytePort]]) -> None:
        """`port` is open; `open_port` opens it again."""
        self._port: BytePort | None = port
        self._open_port = open_port

    async def read(self, timeout_s: float) -> bytes:
        try:
            if self._port is None:
                self._port = await self._open_port()
            return await self._port.read(timeout_s)
        except HeadgateError:
            self.close()
            await asyncio.sleep(min(timeout_s, REOPEN_EVERY_S))
            return b""

    async def write(self, data: bytes) -> None:
        try:
            if self._port is not None:
                await self._port.write(data)
        except HeadgateError:
            self.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
