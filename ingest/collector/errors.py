"""The errors that start in the collector. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError
from protocol.shipping import Refusal
from runtime.errors import ConfigError

__all__ = ["ConfigError", "UploadRefused"]


class UploadRefused(HeadgateError):
    """A request of a device is refused. The one reaction: respond with the refusal, count it, continue."""

    exit_code = 69

    def __init__(self, refusal: Refusal, detail: str, *, offset: int | None = None, retry_after_s: int | None = None):
        super().__init__(detail)
        self.refusal = refusal
        self.detail = detail
        self.offset = offset  # bytes that are stored; the device continues from there
        self.retry_after_s = retry_after_s
