"""The errors that start in the agent. The set is closed, and each has one reaction."""

from agent.exit_codes import ExitCode
from protocol.errors import HeadgateError

__all__ = ["ConfigError", "StorageError"]


class ConfigError(HeadgateError):
    """The operator must change a file or a setting. The one reaction: say all of it, exit, do not restart."""

    exit_code = ExitCode.BAD_CONFIG


class StorageError(HeadgateError):
    """Our disk cannot keep the promise. The one reaction: shed as configured, record the gap, tell the operator."""

    exit_code = ExitCode.IO_ERROR
