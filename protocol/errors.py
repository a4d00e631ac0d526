"""The root of all errors of Headgate, and the errors for bytes that break a wire format.

An error type exists only if some code reacts to it differently. Other packages add theirs, each in its own `errors.py`.
"""

from typing import ClassVar


class HeadgateError(Exception):
    """Root of every error raised on purpose. Its text names the problem, the place and what to do, and no secret."""

    exit_code: ClassVar[int] = 1  # of a command that ends with this error; docs/operations.md lists them


class WireError(HeadgateError, ValueError):
    """Bytes, text or values break a wire format. The one reaction: quarantine them, count, go on."""

    exit_code = 65

    def __init__(self, problem: str, *, offset: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset  # in bytes from the start of the input; None if no single place is wrong

    def __str__(self) -> str:
        return self.problem if self.offset is None else f"{self.problem} (at byte {self.offset})"


class Truncated(WireError):
    """The input ends too early: it is the beginning of something longer."""


class Corrupt(WireError):
    """The input is invalid, whatever follows it."""


class Unsupported(WireError):
    """The input is of an unknown version or kind."""
