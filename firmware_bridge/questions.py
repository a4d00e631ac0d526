"""Asking a device, and waiting for what it answers, while somebody else pumps its session."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from firmware_bridge.errors import LinkDown, Rejected
from firmware_bridge.reception import Moment
from firmware_bridge.requests import Done, Unanswered
from firmware_bridge.session import PATIENCE_MS, HostSession
from protocol.link import CommandDescription, CommandResult, CommandValue, Hello, Message

__all__ = ["Questions"]

PATIENCE_S: Final = PATIENCE_MS / 1000
LOOK_EVERY_S: Final = 0.01
GRACE_S: Final = 1.0  # the session gives up in time, unless nobody pumps it: its port is away


class Questions:
    """A question outlives the port that it was asked over, as its session does."""

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
                raise LinkDown(f"no device answers within {timeout_s:g} s; {problem}")
            await asyncio.sleep(LOOK_EVERY_S)
        return self.session.hello

    async def commands(self) -> Collection[CommandDescription]:
        """What it can be asked to do. Raises: LinkDown."""
        await self.opened()
        return self.session.commands

    async def ask(self, message: Message, patience_s: float = PATIENCE_S) -> Message:
        """The answer to a FW_ message. Raises: LinkDown."""
        return await self._answer(
            lambda done, now_ms: self.session.send_reliable(message, done, now_ms, patience_s * 1000), patience_s
        )

    async def call(self, name: str, argument: CommandValue = None, patience_s: float = PATIENCE_S) -> CommandResult:
        """Have a command executed, once. Raises: LinkDown."""
        answer = await self._answer(
            lambda done, now_ms: self.session.call(name, argument, done, now_ms, patience_s * 1000), patience_s
        )
        if not isinstance(answer, CommandResult):
            raise Rejected(f"{name} was answered with {answer.KIND.name}")
        return answer

    async def _answer(self, begin: Callable[[Done, float], None], patience_s: float) -> Message:
        answered: asyncio.Future[Message | Unanswered] = asyncio.get_running_loop().create_future()
        begin(lambda outcome: None if answered.done() else answered.set_result(outcome), self._clocks().steady_ms)
        await self._flush()
        try:
            outcome = await asyncio.wait_for(answered, patience_s + GRACE_S)
        except TimeoutError:
            raise LinkDown(f"no answer within {patience_s:g} s; the port is away") from None
        if isinstance(outcome, Unanswered):
            raise LinkDown(outcome.reason)
        return outcome
