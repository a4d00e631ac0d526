"""The error of the bench itself, as opposed to failures of the parts under test."""

from protocol.errors import HeadgateError


class BenchError(HeadgateError):
    """The bench failed: a part did not start, a program is missing, or a wait timed out."""

    exit_code = 69
