"""How much memory all connections together may hold for what is half received or not yet sent.

Each connection has a limit of its own, but many at their limits would be too much. So all of them share a budget; while
it is overdrawn, a connection that holds more than its fair share of it must go. That bounds the whole by twice the
budget, and never costs an honest client its connection for what others do.
"""

from collections.abc import Hashable


class MemoryBudget:
    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._held: dict[Hashable, int] = {}
        self.held_bytes = 0

    def note(self, holder: Hashable, held_bytes: int) -> bool:
        """Say how much a connection holds now. Whether it may go on."""
        self.held_bytes += held_bytes - self._held.get(holder, 0)
        self._held[holder] = held_bytes
        return self.held_bytes <= self._budget_bytes or held_bytes <= self._budget_bytes // len(self._held)

    def release(self, holder: Hashable) -> None:
        self.held_bytes -= self._held.pop(holder, 0)
