"""One request at a time for each device and archive, and the newest one counts.

A device whose link broke comes back while the collector still waits for bytes on the old connection. The newcomer does
not wait for that one to time out: it pushes it out.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

from ingest.collector.errors import Refused
from protocol.shipping import Refusal


class _Turn:
    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self.is_pushed_out = False
        self.ended = asyncio.Event()

    def push_out(self) -> None:
        if not self.is_pushed_out:
            self.is_pushed_out = True
            self._task.cancel()

    def is_only_pushed_out(self) -> bool:
        """Whether nothing else cancelled the task; if so, it may live on."""
        return self.is_pushed_out and self._task.uncancel() == 0


class Turns:
    def __init__(self) -> None:
        self._turns: dict[Hashable, _Turn] = {}

    @asynccontextmanager
    async def take(self, key: Hashable) -> AsyncIterator[None]:
        """Raises: Refused within the turn that a newer one pushes out."""
        while (before := self._turns.get(key)) is not None:
            before.push_out()
            await before.ended.wait()
        task = asyncio.current_task()
        assert task is not None
        turn = self._turns[key] = _Turn(task)
        try:
            yield
        except asyncio.CancelledError:
            if turn.is_only_pushed_out():
                raise Refused(Refusal.TAKEN_OVER, "a newer request for the same archive goes on instead") from None
            raise
        finally:
            del self._turns[key]
            turn.ended.set()
