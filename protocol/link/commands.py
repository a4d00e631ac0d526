"""Commands of the host. The host repeats a command until the device responds; the device executes it once."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from protocol.checks import check_within
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.payload import MAX_UINT32
from protocol.link.session_messages import MAX_DESCRIBED

CommandValue: TypeAlias = int | str | None

MAX_VALUE_BYTES: Final = 64
_INT32: Final = range(-(2**31), 2**31)


class CommandStatus(IntEnum):
    DONE = 0
    UNKNOWN = 1  # no such command
    BAD_ARGUMENT = 2
    FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(payload.LinkMessage):
    """Host to device: execute a command, unless one with this id was executed already."""

    KIND = FrameType.COMMAND

    id: int  # higher than that of the previous command and than last_command of HELLO
    command: int  # index of its description
    argument: CommandValue = None

    def __post_init__(self) -> None:
        _check_id(self.id)
        payload.check_range(self, 2 * MAX_DESCRIBED, "command")
        _check_value(self.argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult(payload.LinkMessage):
    """Device to host: the result of a command. A repeated command gets the same result."""

    KIND = FrameType.RESULT

    id: int
    status: CommandStatus
    value: CommandValue = None

    def __post_init__(self) -> None:
        _check_id(self.id)
        _check_value(self.value)


def _check_id(number: int) -> None:
    check_within("id", number, 1, MAX_UINT32)  # 0 in HELLO means that there was no command


def _check_value(value: object) -> None:
    if value is not None and type(value) not in (int, str):  # a boolean is an int in Python, but not on the wire
        raise ValueError(f"a {type(value).__name__} is no value of a command; expected an integer, a string or nothing")
    if isinstance(value, int) and value not in _INT32:
        raise ValueError(f"{value} does not fit 32 bits")
    if isinstance(value, str) and len(value.encode(errors="surrogatepass")) > MAX_VALUE_BYTES:
        raise ValueError(f"a value of more than {MAX_VALUE_BYTES} bytes")
