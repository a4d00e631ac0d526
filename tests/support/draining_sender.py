"""A sender that can end when everything in the journal is settled."""

import contextlib

from agent.publish import Sender


class _DrainedError(Exception):
    pass


class DrainingSender(Sender):
    _ends_when_drained = False

    async def run_until_drained(self) -> None:
        self._ends_when_drained = True
        try:
            with contextlib.suppress(_DrainedError):
                await self.run()
        finally:
            self._ends_when_drained = False

    async def _wait_for_work(self) -> None:
        is_drained = not (self._window.in_flight or self._window.has_settled() or self._is_held_back)
        if self._ends_when_drained and is_drained:
            raise _DrainedError
        await super()._wait_for_work()
