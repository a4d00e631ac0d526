"""The errors that start in a driver. The set is closed, and each has one reaction."""

from protocol.errors import HeadgateError

__all__ = ["ConfigError", "DeviceError"]


class DeviceError(HeadgateError):
    """A sensor or its port failed. The one reaction: reopen with backoff; other sensors are unaffected."""

    exit_code = 69


class ConfigError(HeadgateError):
    """The operator must edit a file. The one reaction: list every problem, exit, do not restart.

    Each problem begins with its dotted path: `drivers.boiler.baudrate: 11520 is not one of 9600, 19200`.
    """

    exit_code = 78

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n  ".join([f"{len(self.problems)} problems", *self.problems])
