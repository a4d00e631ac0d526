"""The errors that start in the firmware bridge. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError

__all__ = ["ConfigError", "LinkDown", "Rejected"]


class LinkDown(HeadgateError):
    """The device does not answer. The one reaction: try again with backoff."""

    exit_code = 69


class Rejected(HeadgateError):
    """The device refuses this request for good, or nobody knows what came of it. The one reaction: tell who asked."""

    exit_code = 69


class ConfigError(HeadgateError):
    """The operator must edit a file. The one reaction: say so, exit, do not restart."""

    exit_code = 78
