"""The status for everyone who asks, with one look at the agent for all of them, and no waiting without end."""

import asyncio
import os
import time
from typing import Any, Final

from agent.clock import Clock
from agent.pipeline import Pipeline
from agent.status import collect_status

__all__ = ["Looks", "reasons_against"]

FRESH_S: Final = 1.0
PATIENCE_S: Final = 5.0

Status = dict[str, Any]


class Looks:
    """However many watch, the journal is asked once a second at most; and never again before it has answered."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._looking: asyncio.Task[Status] | None = None
        self._looked_at_s = 0.0

    async def latest(self) -> Status | None:
        """None if the journal's thread does not answer."""
        if self._looking is None or (self._looking.done() and time.monotonic() - self._looked_at_s > FRESH_S):
            self._looking = asyncio.create_task(self._look(), name="page: look")
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.shield(self._looking)
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> Status:
        status = await collect_status(self._pipeline, self._clock, os.getpid())
        self._looked_at_s = time.monotonic()
        return status


def reasons_against(status: Status | None) -> list[str]:
    """Why readings do not get to the disk; none if they do. The words are ours alone: anyone may see them."""
    if status is None:
        return ["the journal does not answer"]
    reasons = []
    if not status["is_moving"]:
        reasons.append("the pipeline does not move")
    if status["storage_problem"]:
        reasons.append("the journal cannot be written")
    return reasons
