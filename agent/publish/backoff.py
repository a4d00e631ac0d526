"""How long to wait before the next attempt, and how fast to go. Time and chance are arguments."""

from dataclasses import dataclass

__all__ = ["Backoff", "RateLimit"]

MAX_DOUBLINGS = 32  # beyond it the number only grows, the wait does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that double up to a limit, each shortened by chance so that a thousand devices do not come back at once.

    The first wait is short whatever chance says: a far end that was restarted is found again within a second.
    """

    first_s: float = 0.5
    max_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.max_s:
            raise ValueError(f"first_s {self.first_s} is not above 0 and at most max_s {self.max_s}")

    def wait_s(self, failures: int, chance: float) -> float:
        """The wait after so many failures in a row (1 for the first); `chance` is within 0..1 and even.

        Between half of the full wait and all of it.
        """
        doublings = min(max(failures, 1) - 1, MAX_DOUBLINGS)
        full_s = min(self.first_s * 2.0**doublings, self.max_s)
        return full_s * (1 + chance) / 2


class RateLimit:
    """So many per second, with one second's worth at once after a pause. Without a rate there is no limit."""

    def __init__(self, per_s: float | None) -> None:
        if per_s is not None and per_s <= 0:
            raise ValueError(f"per_s {per_s} is not above 0")
        self._per_s = per_s
        self._saved = per_s or 0.0
        self._counted_at_s: float | None = None

    def allowance(self, wanted: int, now_s: float) -> int:
        """How many of those wanted may go now; `spend` counts those that did."""
        if self._per_s is None:
            return wanted
        if self._counted_at_s is not None:
            earned = max(now_s - self._counted_at_s, 0.0) * self._per_s
            self._saved = min(self._saved + earned, max(self._per_s, 1.0))
        self._counted_at_s = now_s
        return min(wanted, int(self._saved))

    def spend(self, count: int) -> None:
        self._saved -= count

    @property
    def wait_s(self) -> float:
        """How long until one more may go, as of the last `allowance`."""
        if self._per_s is None or self._saved >= 1:
            return 0.0
        return (1 - self._saved) / self._per_s
