"""The errors that start in the node. The set is closed, and each has one reaction."""

from enum import StrEnum

from protocol.errors import HeadgateError

__all__ = ["ConfigError", "ErrorCode", "Refused", "StorageError"]


class ConfigError(HeadgateError):
    """The operator must change a file or a setting. The one reaction: say all of it, exit, do not restart."""

    exit_code = 78


class StorageError(HeadgateError):
    """Our disk cannot keep the promise. The one reaction: refuse what would be promised, and tell the operator."""

    exit_code = 74


class ErrorCode(StrEnum):
    """What a client is told, in the words of real brokers."""

    INVALID_REQUEST = "INVALID_REQUEST"
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    REQUEST_FAILED = "REQUEST_FAILED"
    RESEND_FAILED = "RESEND_FAILED"
    ERROR_WHILE_HANDLING_REQUEST = "ERROR_WHILE_HANDLING_REQUEST"


class Refused(HeadgateError):
    """A client asks for what it may not have. The one reaction: tell it so, and go on."""

    def __init__(self, code: ErrorCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code
