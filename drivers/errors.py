"""The errors that start in a driver. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError
from runtime.errors import ConfigError

__all__ = ["ConfigError", "DeviceError"]


class DeviceError(HeadgateError):
    """A sensor or its port failed. The one reaction: reopen with backoff; other sensors are unaffected."""

    exit_code = 69
