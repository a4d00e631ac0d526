"""The errors of the shared plumbing. The packages that use it re-export them."""

import os
import socket

from protocol.errors import HeadgateError


class ConfigError(HeadgateError):
    """The operator must edit a file or a setting. The one reaction: list every problem, exit, do not restart.

    A problem of a setting begins with its dotted path: `drivers.boiler.baudrate: 11520 is not one of 9600, 19200`.
    """

    exit_code = 78

    def __init__(self, *problems: str, file: object = None) -> None:
        """`file`: of the settings; a heading then names it."""
        super().__init__(*problems)
        self.problems = problems
        self._file = file

    def __str__(self) -> str:
        count = len(self.problems)
        if count == 1 and self._file is None:
            return self.problems[0]
        counted = f"{count} problem{'' if count == 1 else 's'}"
        heading = counted if self._file is None else f"{self._file}: {counted}"
        return "\n  ".join([heading, *self.problems])


class LinkDown(HeadgateError):
    """A destination is out of reach. The one reaction: store what there is, retry with backoff and jitter.

    `by_message`: the destination ended the connection because of the message, as it states itself.
    """

    exit_code = 69

    def __init__(self, problem: str, *, by_message: bool = False) -> None:
        super().__init__(problem)
        self.by_message = by_message


def connection_error_text(error: Exception, host: str) -> str:
    """The reason why a connection to this host failed, for an operator: without the number of the error."""
    if isinstance(error, socket.gaierror):
        return f"cannot resolve {host}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    is_of_system = isinstance(error, ConnectionError) or type(error) is OSError  # TLS has numbers of its own
    number = getattr(error, "errno", None)
    if is_of_system and number:
        return os.strerror(number)  # asyncio has a text of its own, with the address once more
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
