"""A token bucket: so many a second on average, and as many at once as a second would allow."""

__all__ = ["Throttle"]


class Throttle:
    def __init__(self, per_s: float, *, burst: float | None = None) -> None:
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._tokens = self._burst
        self._filled_at_s: float | None = None

    def take(self, now_s: float) -> float:
        """Take one. How many seconds to wait until it is there: 0 mostly."""
        since_s = 0.0 if self._filled_at_s is None else now_s - self._filled_at_s
        self._filled_at_s = now_s
        self._tokens = min(self._burst, self._tokens + since_s * self._per_s) - 1
        return max(0.0, -self._tokens / self._per_s)

    def refund(self) -> None:
        """Give back what was taken, where the caller would not wait for it."""
        self._tokens += 1
