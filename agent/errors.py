"""The errors that start in the agent. The set is closed, and each has one reaction."""

from agent.exit_codes import ExitCode
from protocol.errors import HeadgateError

__all__ = ["ConfigError", "LinkDown", "Rejected", "StorageError", "in_words"]


class ConfigError(HeadgateError):
    """The operator must change a file or a setting. The one reaction: say all of it, exit, do not restart."""

    exit_code = ExitCode.BAD_CONFIG


class StorageError(HeadgateError):
    """Our disk cannot keep the promise. The one reaction: shed as configured, record the gap, tell the operator."""

    exit_code = ExitCode.IO_ERROR


class LinkDown(HeadgateError):
    """The far end of a link is out of reach. The one reaction: keep what there is, retry with backoff and jitter.

    `by_message`: the far end closed the link because of what it was sent, as it says itself.
    """

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, problem: str, *, by_message: bool = False) -> None:
        super().__init__(problem)
        self.by_message = by_message


class Rejected(HeadgateError):
    """The far end refuses this very message, or request, for good. The one reaction: set it aside, go on."""

    exit_code = ExitCode.NO


def in_words(error: Exception) -> str:
    """As an operator reads it: the operating system's words without their number, after the file they are about."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    words = error.strerror or str(error) or type(error).__name__
    return words if error.filename is None else f"{error.filename}: {words}"
