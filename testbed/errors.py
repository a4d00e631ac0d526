"""What can go wrong with the bench itself, as opposed to what is tested on it."""

from protocol.errors import HeadgateError

__all__ = ["BenchError"]


class BenchError(HeadgateError):
    """The bench cannot do what it was asked: a part did not start, a program is missing, a wait was in vain."""

    exit_code = 69
