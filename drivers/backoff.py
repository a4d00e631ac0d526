"""When to try again: longer after each failure, and never in step with other devices."""

from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A policy, pure: the number of failures and the chance come in as arguments."""

    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 60.0
    jitter: float = 0.5  # the share of each wait that chance may take away

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.max_s and self.factor >= 1 and 0 <= self.jitter < 1):
            raise ValueError("a backoff wants 0 < first_s <= max_s, factor >= 1 and 0 <= jitter < 1")

    def wait_s(self, failures: int, chance: float) -> float:
        """Seconds to wait after this many failures in a row (1 or more); `chance` is in [0, 1)."""
        longest_s = self.first_s
        for _ in range(failures - 1):  # not a power: ten thousand failures must not overflow
            longest_s *= self.factor
            if longest_s >= self.max_s or self.factor == 1:
                break
        return min(longest_s, self.max_s) * (1 - self.jitter * chance)
