"""How fast a line carries bytes. Pure: the time comes in as an argument."""

from typing import Final

__all__ = ["LinePace"]

BITS_PER_BYTE: Final = 10  # a start bit, eight of data, a stop bit


class LinePace:
    """Bytes that have had the time to pass. A line that was idle gives no credit for it."""

    def __init__(self, baudrate: int | None) -> None:
        """None: as fast as it goes."""
        self._bytes_per_s = None if baudrate is None else baudrate / BITS_PER_BYTE
        self._from_s: float | None = None  # when the byte now on the line began; None while it is idle

    def passed(self, waiting: int, now_s: float) -> int:
        """How many of the waiting bytes are through."""
        if self._bytes_per_s is None or not waiting:
            self._from_s = None
            return waiting
        if self._from_s is None:
            self._from_s = now_s
        count = min(waiting, int((now_s - self._from_s) * self._bytes_per_s))
        self._from_s = None if count == waiting else self._from_s + count / self._bytes_per_s
        return count

    @property
    def byte_s(self) -> float:
        """How long one byte takes."""
        return 0.0 if self._bytes_per_s is None else 1 / self._bytes_per_s
