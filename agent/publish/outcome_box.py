"""Where a publisher puts outcomes as they come in, and `outcomes` finds them."""

import asyncio

from agent.errors import LinkDown
from agent.publish.contract import Outcome

__all__ = ["OutcomeBox"]


class OutcomeBox:
    """Outcomes of one connection, until it fails. All calls belong to the event loop's thread.

    It holds no more than the publisher has in flight.
    """

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        self._problem: LinkDown | None = None
        self._has_something = asyncio.Event()

    def put(self, *outcomes: Outcome) -> None:
        self._outcomes += outcomes
        self._has_something.set()

    def fail(self, problem: LinkDown) -> None:
        """The connection is gone. The first problem is the one that counts."""
        self._problem = self._problem or problem
        self._has_something.set()

    def check(self) -> None:
        """Raises: LinkDown, if the connection is gone."""
        if self._problem is not None:
            raise self._problem

    async def take(self) -> list[Outcome]:
        """Whatever is there, as soon as there is anything; what came before a failure comes first. Raises: LinkDown."""
        await self._has_something.wait()
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes:
            self.check()
        if self._problem is None:
            self._has_something.clear()
        return outcomes
