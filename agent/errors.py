"""The errors that start in the agent, and the exit codes of `headgate`. Each error has one reaction."""

from enum import IntEnum

from protocol.errors import HeadgateError
from runtime.errors import ConfigError, LinkDown

__all__ = ["ConfigError", "ExitCode", "LinkDown", "Rejected", "StorageError", "error_text"]


class ExitCode(IntEnum):
    """The exit codes of `headgate`. Released numbers never change meaning; 64 and up follow sysexits.h."""

    OK = 0
    NO = 1  # the command ran, and its check failed: an invalid signature, a broken chain
    USAGE = 2  # the command line is wrong
    BAD_DATA = 65  # input breaks its format
    NO_INPUT = 66  # an input file does not exist
    UNAVAILABLE = 69  # a device or a destination does not respond
    BUG = 70  # an unexpected error in Headgate; the traceback is on stderr
    IO_ERROR = 74  # a disk or a pipe failed
    NO_PERMISSION = 77  # the operating system denied access
    BAD_CONFIG = 78  # the operator must correct a file; systemd does not restart the service
    INTERRUPTED = 130  # Ctrl-C


class StorageError(HeadgateError):
    """The disk cannot store data. The one reaction: shed as configured, record the loss, report it."""

    exit_code = ExitCode.IO_ERROR


class Rejected(HeadgateError):
    """A destination refuses this message, or request, for good. The one reaction: quarantine it, go on."""

    exit_code = ExitCode.NO


def error_text(error: Exception) -> str:
    """The error as one line for an operator: an `OSError` as the file and the reason, without its number."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"
