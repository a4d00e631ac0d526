"""How long to wait before the next attempt."""

from random import Random
from typing import Final

__all__ = ["Backoff"]

FIRST_DELAY_S: Final = 0.25
LONGEST_DELAY_S: Final = 30.0


class Backoff:
    """Delays that double with each failure up to a bound, each between half of that and the whole of it, by chance:
    nodes that lost the same peer at the same moment must not all come back at the same moment.
    """

    def __init__(
        self, chance: Random, *, first_delay_s: float = FIRST_DELAY_S, longest_delay_s: float = LONGEST_DELAY_S
    ) -> None:
        self._chance = chance
        self._first_delay_s = first_delay_s
        self._longest_delay_s = longest_delay_s
        self._full_delay_s = first_delay_s

    def next_delay_s(self) -> float:
        delay_s = self._full_delay_s * self._chance.uniform(0.5, 1)
        self._full_delay_s = min(self._full_delay_s * 2, self._longest_delay_s)
        return delay_s

    def reset(self) -> None:
        """An attempt succeeded."""
        self._full_delay_s = self._first_delay_s
