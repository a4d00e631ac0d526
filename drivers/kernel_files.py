"""Reading the kernel's files (/proc, /sys), which may vanish or return an error at any time."""

import math
from pathlib import Path
from typing import Final

MAX_CHARS: Final = 64 * 1024


def read_kernel_file(file: Path) -> str | None:
    """The text of a file; None if it is absent or cannot be read at this moment (a sensor's bus may fail)."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_CHARS).strip()
    except OSError:
        return None


def numeric_file(file: Path) -> float | None:
    """The number in a file, or None."""
    text = read_kernel_file(file)
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
