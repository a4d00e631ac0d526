"""The errors that start in the firmware bridge. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError
from runtime.errors import ConfigError, LinkDown

__all__ = ["CommandRejected", "ConfigError", "LinkDown"]


class CommandRejected(HeadgateError):
    """The device refuses this request for good, or its result is unknown. The one reaction: report it to the caller."""

    exit_code = 69
