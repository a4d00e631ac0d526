"""Checkpoints of the device log as events, so that every subscriber can see how much the device has produced."""

import asyncio
from collections.abc import Awaitable, Callable

from agent.events.events import Events
from protocol.devicelog.checkpoint import Checkpoint
from protocol.events import CHECKPOINT_INFO_TYPE


class CheckpointEvents:
    """Reports a checkpoint whenever anything but the last report was committed since."""

    def __init__(self, events: Events, make: Callable[[], Awaitable[Checkpoint]]) -> None:
        """`make` makes a checkpoint of what is durable now."""
        self._events = events
        self._make = make
        self._stated: int | None = None  # the readings that the last reported checkpoint stated

    async def run(self, every_s: float) -> None:
        """Report until cancelled. A disk that fails is reported by those who need it more."""
        while True:
            await asyncio.sleep(every_s)
            await self.report()

    async def report(self) -> None:
        try:
            checkpoint = await self._make()
        except OSError:
            return
        stated = sum(lane.committed for lane in checkpoint.lanes)
        if self._stated is None or stated > self._stated + 1:  # the report itself is one reading
            self._stated = stated
            await self._events.report(CHECKPOINT_INFO_TYPE, checkpoint.to_bytes())
