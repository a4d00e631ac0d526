"""The thin shell around a session: moves bytes between it and an open port, and lets coroutines wait for answers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, Protocol

from firmware_bridge.errors import LinkDown, Rejected
from firmware_bridge.events import Event
from firmware_bridge.reception import Moment
from firmware_bridge.requests import Done, Unanswered
from firmware_bridge.session import PATIENCE_MS, HostSession
from protocol.link import CommandResult, CommandValue, Hello, Message

__all__ = ["BytePort", "DeviceLink", "read_clocks"]

PATIENCE_S: Final = PATIENCE_MS / 1000


class BytePort(Protocol):
    """An open port."""

    async def read(self, timeout_s: float) -> bytes:
        """At least one byte; b"" when nothing came in time."""

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


def read_clocks() -> Moment:
    return Moment(time.monotonic() * 1000, time.time_ns() // 1_000_000)


class DeviceLink:
    """Somebody must pump: a driver by `pump`, one call after the other; a tool by `pumping`, beside its questions."""

    def __init__(self, port: BytePort, session: HostSession, clocks: Callable[[], Moment] = read_clocks) -> None:
        self.session = session
        self._port = port
        self._clocks = clocks
        self._writing = asyncio.Lock()
        session.begin(clocks().steady_ms)

    async def pump(self, timeout_s: float) -> list[Event]:
        """Whatever happens next, or nothing in so much time. Raises what the port raises."""
        events = self.session.tick(self._clocks())
        await self._flush()
        if events:
            return events
        wait_s = min(timeout_s, self.session.wait_ms(self._clocks().steady_ms) / 1000)
        data = await self._port.read(max(wait_s, 0.001))
        events = self.session.receive(data, self._clocks()) if data else []
        await self._flush()
        return events

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

    async def opened(self, timeout_s: float = PATIENCE_S) -> Hello:
        """Wait until there is a session. While someone pumps. Raises: LinkDown."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while not self.session.is_open or self.session.hello is None:
            if asyncio.get_running_loop().time() > deadline_s:
                problem = self.session.problem or "check cable and baudrate"
                raise LinkDown(f"no device answers within {timeout_s:g} s; {problem}")
            await asyncio.sleep(0.01)
        return self.session.hello

    async def ask(self, message: Message, patience_s: float = PATIENCE_S) -> Message:
        """The answer to a FW_ message. While someone pumps. Raises: LinkDown."""
        return await self._answer(
            lambda done, now_ms: self.session.send_reliable(message, done, now_ms, patience_s * 1000)
        )

    async def call(self, name: str, argument: CommandValue = None, patience_s: float = PATIENCE_S) -> CommandResult:
        """Have a command executed, once. While someone pumps. Raises: LinkDown."""
        answer = await self._answer(
            lambda done, now_ms: self.session.call(name, argument, done, now_ms, patience_s * 1000)
        )
        if not isinstance(answer, CommandResult):
            raise Rejected(f"{name} was answered with {answer.KIND.name}")
        return answer

    async def commit(self, tokens: Iterable[int]) -> None:
        """These samples are durable. Raises what the port raises."""
        self.session.commit(tokens, self._clocks().steady_ms)
        await self._flush()

    def close(self) -> None:
        self._port.close()

    async def _answer(self, begin: Callable[[Done, float], None]) -> Message:
        answered: asyncio.Future[Message | Unanswered] = asyncio.get_running_loop().create_future()
        begin(lambda outcome: None if answered.done() else answered.set_result(outcome), self._clocks().steady_ms)
        await self._flush()
        outcome = await answered
        if isinstance(outcome, Unanswered):
            raise LinkDown(outcome.reason)
        return outcome

    async def _flush(self) -> None:
        """One writer at a time, or frames would be torn apart."""
        async with self._writing:
            if output := self.session.take_output():
                await self._port.write(output)
