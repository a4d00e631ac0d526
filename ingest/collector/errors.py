"""The errors that start in the collector. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError
from protocol.shipping import Refusal

__all__ = ["ConfigError", "Refused"]


class ConfigError(HeadgateError):
    """The operator must change a file or a setting. The one reaction: say so, exit, do not restart."""

    exit_code = 78


class Refused(HeadgateError):
    """A request cannot be granted. The one reaction: answer so, count it, and go on with the next."""

    exit_code = 69

    def __init__(self, refusal: Refusal, detail: str, *, offset: int | None = None, retry_after_s: int | None = None):
        super().__init__(detail)
        self.refusal = refusal
        self.detail = detail
        self.offset = offset  # where the upload stands, for who has to go on from there
        self.retry_after_s = retry_after_s
