"""The errors that start in the agent. The set is closed, and each has one reaction."""

from agent.exit_codes import ExitCode
from protocol.errors import HeadgateError
from runtime.errors import ConfigError, LinkDown

__all__ = ["ConfigError", "LinkDown", "Rejected", "StorageError", "error_text"]


class StorageError(HeadgateError):
    """Our disk cannot keep the promise. The one reaction: shed as configured, record the gap, tell the operator."""

    exit_code = ExitCode.IO_ERROR


class Rejected(HeadgateError):
    """The far end refuses this very message, or request, for good. The one reaction: set it aside, go on."""

    exit_code = ExitCode.NO


def error_text(error: Exception) -> str:
    """As an operator reads it: the operating system's words without their number, after the file they are about."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    words = error.strerror or str(error) or type(error).__name__
    return words if error.filename is None else f"{error.filename}: {words}"
