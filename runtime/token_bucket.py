"""A token bucket: limits an average rate per second, and allows a burst after a pause. Time is an argument."""


class TokenBucket:
    """Fills at `per_s` tokens per second up to `burst`, and begins full. `take` may overdraw it."""

    __slots__ = ("_burst", "_filled_at_s", "_level", "_per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        if per_s <= 0:
            raise ValueError(f"per_s {per_s} is not above 0")
        self._per_s = per_s
        self._burst = burst
        self._level = burst
        self._filled_at_s = float("-inf")

    def level(self, now_s: float) -> float:
        """The number of tokens; negative if overdrawn. A clock that steps back adds none."""
        if now_s > self._filled_at_s:
            self._level = min(self._burst, self._level + (now_s - self._filled_at_s) * self._per_s)
        self._filled_at_s = now_s
        return self._level

    def wait_s(self, count: float, now_s: float) -> float:
        """Seconds until this many tokens are available; 0 if they are."""
        return max(0.0, (count - self.level(now_s)) / self._per_s)

    def take(self, count: float, now_s: float) -> float:
        """Take tokens, even if that overdraws the bucket. Returns the seconds until it is no longer overdrawn."""
        self._level = self.level(now_s) - count
        return max(0.0, -self._level / self._per_s)

    def take_if_available(self, count: float, now_s: float) -> float:
        """Take tokens if all of them are available. Returns 0 if so, else the seconds until they are."""
        wait_s = self.wait_s(count, now_s)
        if wait_s == 0:
            self._level -= count
        return wait_s
