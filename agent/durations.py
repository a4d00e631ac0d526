"""A span of time for people: in the largest unit that it has two of."""

from typing import Final

__all__ = ["duration_text"]

DAY_S: Final = 86_400
UNITS: Final = (("years", 365 * DAY_S), ("days", DAY_S), ("h", 3600), ("min", 60))


def duration_text(seconds: float) -> str:
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
