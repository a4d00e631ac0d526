"""Exponential backoff with jitter. The number of failures and the random number are arguments."""

from dataclasses import dataclass
from typing import Final

MAX_DOUBLINGS: Final = 32  # bounds the exponent; `max_s` is reached long before


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that double up to a limit, each shortened at random so that many clients do not reconnect at once."""

    first_s: float = 0.5
    max_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.max_s:
            raise ValueError(f"backoff: first_s {self.first_s} is not above 0 and at most max_s {self.max_s}")

    def wait_s(self, failures: int, chance: float) -> float:
        """Seconds to wait after this many failures in a row (1 for the first), between half and all of the full wait.

        `chance` is a random number, evenly distributed in [0, 1).
        """
        doublings = min(max(failures, 1) - 1, MAX_DOUBLINGS)
        full_s = min(self.first_s * 2.0**doublings, self.max_s)
        return full_s * (1 + chance) / 2
