"""Commands: the host repeats one until it is answered, and the device executes it once."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from protocol import strict_cbor
from protocol.errors import Corrupt
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.payload import MAX_UINT32
from protocol.link.session_messages import MAX_DESCRIBED
from protocol.strict_cbor import CborValue, field

CommandValue: TypeAlias = int | str | None

MAX_VALUE_BYTES: Final = 64
_INT32: Final = range(-(2**31), 2**31)


class CommandStatus(IntEnum):
    DONE = 0
    UNKNOWN = 1  # no such command
    BAD_ARGUMENT = 2
    FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Host: execute this, unless you have."""

    KIND: ClassVar = FrameType.COMMAND

    id: int  # rises from command to command, above HELLO's last_command
    command: int  # index of its description
    argument: CommandValue = None

    def __post_init__(self) -> None:
        _check_id(self.id)
        payload.check_range(self, 2 * MAX_DESCRIBED, "command")
        _check_value(self.argument)

    def to_bytes(self) -> bytes:
        return payload.encode(self.id, self.command, self.argument)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Command":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("COMMAND"):
            number, command, argument = payload.decode(data, 3)
            return cls(id=field(number, int), command=field(command, int), argument=_value(argument))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Device: what came of it. The same command brings the same result again."""

    KIND: ClassVar = FrameType.RESULT

    id: int
    status: CommandStatus
    value: CommandValue = None

    def __post_init__(self) -> None:
        _check_id(self.id)
        _check_value(self.value)

    def to_bytes(self) -> bytes:
        return payload.encode(self.id, int(self.status), self.value)

    @classmethod
    def from_bytes(cls, data: bytes) -> "CommandResult":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("RESULT"):
            number, status, value = payload.decode(data, 3)
            return cls(id=field(number, int), status=CommandStatus(field(status, int)), value=_value(value))


def _value(found: CborValue) -> CommandValue:
    if isinstance(found, bool) or not isinstance(found, int | str | None):
        raise Corrupt(f"an integer, text or null is expected, not {type(found).__name__}")
    return found


def _check_id(number: int) -> None:
    if not 1 <= number <= MAX_UINT32:
        raise ValueError(f"id {number} is not within 1..{MAX_UINT32}; 0 stands for no command")


def _check_value(value: object) -> None:
    if value is not None and type(value) not in (int, str):  # a truth is no number on the line
        raise ValueError(f"a {type(value).__name__} is no value of a command; a number, a text or nothing is")
    if isinstance(value, int) and value not in _INT32:
        raise ValueError(f"{value} does not fit 32 bits")
    if isinstance(value, str) and len(value.encode(errors="surrogatepass")) > MAX_VALUE_BYTES:
        raise ValueError(f"a value of more than {MAX_VALUE_BYTES} bytes")
