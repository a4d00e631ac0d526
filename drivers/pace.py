"""Two ways to keep a device's pace: the next tick of a schedule, and a limit on what it may pour in."""

__all__ = ["Schedule", "Throttle"]


class Schedule:
    """Ticks at whole multiples of an interval, without drift; ticks that were missed are left out."""

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._next_s = now_s  # the first tick is now

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next tick, which is thereby taken."""
        if self._next_s < now_s:
            missed = int((now_s - self._next_s) / self._interval_s)
            self._next_s += missed * self._interval_s
        wait_s = max(0.0, self._next_s - now_s)
        self._next_s += self._interval_s
        return wait_s


class Throttle:
    """A bucket of bytes that fills at a steady rate and holds one second's worth."""

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._level = float(bytes_per_s)
        self._at_s = now_s
        self.flooded = False

    def pause_s(self, taken_bytes: int, now_s: float) -> float:
        """How long to leave the port alone after taking this many bytes. What comes meanwhile waits in the kernel."""
        refilled = self._level + (now_s - self._at_s) * self._bytes_per_s
        self._level = min(refilled, float(self._bytes_per_s)) - taken_bytes
        self._at_s = now_s
        if self._level < 0:
            self.flooded = True
        elif self._level > self._bytes_per_s / 2:
            self.flooded = False
        return max(0.0, -self._level / self._bytes_per_s)
