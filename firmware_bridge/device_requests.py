"""Sends requests to a device and waits for the responses, while another task pumps its session."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from firmware_bridge.errors import CommandRejected, LinkDown
from firmware_bridge.reception import Moment
from firmware_bridge.requests import Done, Unanswered
from firmware_bridge.session import PATIENCE_MS, HostSession
from protocol.link import CommandDescription, CommandResult, CommandValue, Hello, Message

PATIENCE_S: Final = PATIENCE_MS / 1000
POLL_S: Final = 0.01
GRACE_S: Final = 1.0  # the session times out first, unless no task pumps it because its port is gone


class DeviceRequests:
    """Requests to one device. A request survives a change of the port, as its session does."""

    def __init__(
        self, session: HostSession, clocks: Callable[[], Moment], flush: Callable[[], Awaitable[None]]
    ) -> None:
        self.session = session
        self._clocks = clocks
        self._flush = flush

    async def opened(self, timeout_s: float = PATIENCE_S) -> Hello:
        """Wait until there is a session. Raises: LinkDown."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while not self.session.is_open or self.session.hello is None:
            if asyncio.get_running_loop().time() > deadline_s:
                problem = self.session.problem or "check cable and baudrate"
                raise LinkDown(f"no device answered within {timeout_s:g} s; {problem}")
            await asyncio.sleep(POLL_S)
        return self.session.hello

    async def commands(self) -> Collection[CommandDescription]:
        """The commands of the device. Raises: LinkDown."""
        await self.opened()
        return self.session.commands

    async def ask(self, message: Message, patience_s: float = PATIENCE_S) -> Message:
        """The response to a FW_ message. Raises: LinkDown."""
        return await self._answer(
            lambda done, now_ms: self.session.send_reliable(message, done, now_ms, patience_s * 1000), patience_s
        )

    async def call(self, name: str, argument: CommandValue = None, patience_s: float = PATIENCE_S) -> CommandResult:
        """Execute a command, once. Raises: LinkDown."""
        answer = await self._answer(
            lambda done, now_ms: self.session.call(name, argument, done, now_ms, patience_s * 1000), patience_s
        )
        if not isinstance(answer, CommandResult):
            raise CommandRejected(f"{name} was answered with {answer.KIND.name}")
        return answer

    async def _answer(self, begin: Callable[[Done, float], None], patience_s: float) -> Message:
        answered: asyncio.Future[Message | Unanswered] = asyncio.get_running_loop().create_future()
        begin(lambda outcome: None if answered.done() else answered.set_result(outcome), self._clocks().steady_ms)
        await self._flush()
        try:
            async with asyncio.timeout(patience_s + GRACE_S):
                outcome = await answered
        except TimeoutError:
            raise LinkDown(f"no answer within {patience_s:g} s; the port is gone") from None
        if isinstance(outcome, Unanswered):
            raise LinkDown(outcome.reason)
        return outcome
