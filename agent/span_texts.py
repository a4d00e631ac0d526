"""Amounts and spans of time as an operator reads them."""

from typing import Final

__all__ = ["DAY_S", "bytes_text", "duration_text"]

DAY_S: Final = 86_400


def bytes_text(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count < 1e10 else f"{count / 1e9:.1f} GB"


def duration_text(seconds: float) -> str:
    for unit, size in (("years", 365 * DAY_S), ("days", DAY_S), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
