"""A ceiling of timestamps without a disk, for tests of what stands on it."""

from agent.clock import CeilingFile
from agent.clock.ceiling import NOTHING


class CeilingInMemory(CeilingFile):
    def __init__(self) -> None:
        self.ceiling_ms, self.is_doubtful = NOTHING, False

    def write(self, ceiling_ms: int) -> None:
        self.ceiling_ms = ceiling_ms

    def close(self) -> None: ...
