"""Status snapshots shared by concurrent requests, with a bounded wait."""

import asyncio
import os
import time
from typing import Any, Final

from agent.clock import Clock
from agent.pipeline import Pipeline
from agent.service.status import collect_status

FRESH_S: Final = 1.0
PATIENCE_S: Final = 5.0

Status = dict[str, Any]


class StatusSnapshots:
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


def readiness_problems(status: Status | None) -> list[str]:
    """Why no readings reach the disk; none if they do. The words are ours alone: anyone may see them."""
    if status is None:
        return ["the journal does not respond"]
    reasons = []
    if not status["is_moving"]:
        reasons.append("the pipeline is stalled")
    if status["storage_problem"]:
        reasons.append("cannot write the journal")
    return reasons
