"""The errors of the shared plumbing. The packages that use it re-export them."""

from collections.abc import Sequence
from typing import Self

from protocol.errors import HeadgateError


class ConfigError(HeadgateError):
    """The operator must edit a file or a setting. The one reaction: list every problem, exit, do not restart.

    A problem of a setting begins with its dotted path: `drivers.boiler.baudrate: 11520 is not one of 9600, 19200`.
    """

    exit_code = 78

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    @classmethod
    def of_file(cls, file: object, problems: Sequence[str]) -> Self:
        """One error for all problems of a file, under a heading that names it."""
        heading = f"{file}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
        return cls("\n  ".join([heading, *problems]))

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n  ".join([f"{len(self.problems)} problems", *self.problems])


class LinkDown(HeadgateError):
    """A destination is out of reach. The one reaction: store what there is, retry with backoff and jitter.

    `by_message`: the destination ended the connection because of the message, as it states itself.
    """

    exit_code = 69

    def __init__(self, problem: str, *, by_message: bool = False) -> None:
        super().__init__(problem)
        self.by_message = by_message
