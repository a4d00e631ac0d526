"""The thin shell around a session: moves bytes between it and an open port."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from firmware_bridge.events import Event
from firmware_bridge.questions import Questions
from firmware_bridge.reception import Moment
from firmware_bridge.session import HostSession
from protocol.errors import HeadgateError

__all__ = ["BytePort", "DeviceLink", "read_clocks"]


class BytePort(Protocol):
    """An open port."""

    async def read(self, timeout_s: float) -> bytes:
        """At least one byte; b"" when nothing came in time."""

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


def read_clocks() -> Moment:
    return Moment(time.monotonic() * 1000, time.time_ns() // 1_000_000)


class DeviceLink(Questions):
    """Somebody must pump: a driver by `pump`, one call after the other; a tool by `pumping`, beside its questions."""

    def __init__(self, port: BytePort, session: HostSession, clocks: Callable[[], Moment] = read_clocks) -> None:
        super().__init__(session, clocks, self.flush)
        self._port = port
        self._writing = asyncio.Lock()
        session.begin(clocks().steady_ms)

    async def pump(self, timeout_s: float) -> list[Event]:
        """Whatever happens next, or nothing in so much time. Raises what the port raises."""
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
        """What was taken from the session is told by nobody else: if the port breaks now, the next pump meets that."""
        try:
            await self.flush()
        except HeadgateError:
            if not events:
                raise

    @contextlib.asynccontextmanager
    async def pumping(self, on_event: Callable[[Event], None] = lambda _: None) -> AsyncIterator["DeviceLink"]:
        """Pump for as long as the block lasts. What the pump dies of ends the block."""

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
        except BaseExceptionGroup as errors:  # of the pump or of the block; who called wants the error itself
            raise errors.exceptions[0] from None

    async def commit(self, tokens: Iterable[int]) -> None:
        """These samples are durable. Raises what the port raises."""
        self.session.commit(tokens, self._clocks().steady_ms)
        await self.flush()

    def close(self) -> None:
        self._port.close()

    async def flush(self) -> None:
        """One writer at a time, or frames would be torn apart."""
        async with self._writing:
            if output := self.session.take_output():
                await self._port.write(output)
