"""The errors that start here: the root of all of ours, and what bytes that break a format give.

An error type exists only if some code reacts to it differently. Other rooms add theirs, each in its own `errors.py`.
"""

from typing import ClassVar

__all__ = ["Corrupt", "HeadgateError", "Truncated", "Unsupported", "WireError"]


class HeadgateError(Exception):
    """Root of every error raised on purpose. Its text says what, where and what to do, and never holds a secret."""

    exit_code: ClassVar[int] = 1  # what a command that ends with this error answers; docs/operations.md lists them


class WireError(HeadgateError, ValueError):
    """Bytes, text or values break a wire format. The one reaction: quarantine them, count, go on."""

    exit_code = 65

    def __init__(self, problem: str, *, offset: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset  # in bytes from the start of the input; None where no single place is to blame

    def __str__(self) -> str:
        return self.problem if self.offset is None else f"{self.problem} (at byte {self.offset})"


class Truncated(WireError):
    """The input is a proper beginning of something longer."""


class Corrupt(WireError):
    """The input can never become valid, whatever follows."""


class Unsupported(WireError):
    """The input is of a version or kind that this reader does not know."""
