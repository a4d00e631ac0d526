"""The errors raised by the node. The set is closed, and each has one reaction."""

from enum import StrEnum

from protocol.errors import HeadgateError
from runtime.errors import ConfigError

__all__ = ["ConfigError", "DataInUse", "ErrorCode", "Refused", "StorageError"]


class StorageError(HeadgateError):
    """The disk failed. The one reaction: refuse what cannot be stored, and report it to the operator."""

    exit_code = 74


class DataInUse(StorageError):
    """Another node has the data directory. The one reaction: ask that node instead, or end."""


class ErrorCode(StrEnum):
    """The error codes that clients receive, named as real brokers name them."""

    INVALID_REQUEST = "INVALID_REQUEST"
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    REQUEST_FAILED = "REQUEST_FAILED"
    RESEND_FAILED = "RESEND_FAILED"
    ERROR_WHILE_HANDLING_REQUEST = "ERROR_WHILE_HANDLING_REQUEST"


class Refused(HeadgateError):
    """A client's request is refused. The one reaction: answer with the reason, and continue."""

    def __init__(self, code: ErrorCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code
