"""The errors that start in the agent. The set is closed: each has one reaction."""

from agent.exit_codes import ExitCode
from protocol.errors import HeadgateError

__all__ = ["StorageError"]


class StorageError(HeadgateError):
    """Our disk cannot keep the promise. The one reaction: shed as configured, record the gap, tell the operator."""

    exit_code = ExitCode.IO_ERROR
