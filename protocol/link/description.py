"""What a device says about its sensors and commands, so that the host needs no configuration for them.

Descriptions are numbered: the sensors from 0, the commands after them. They do not change while the firmware runs. A
host that has seen the same device, firmware and schema before need not ask.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from protocol import strict_cbor
from protocol.errors import Unsupported
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.session_messages import MAX_DESCRIBED, MAX_NAME_BYTES
from protocol.strict_cbor import CborValue, field

MAX_UNIT_BYTES: Final = 16
MAX_EXPONENT: Final = 18
_SENSOR, _COMMAND = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionRequest:
    """Host: describe this one."""

    KIND: ClassVar = FrameType.DESC_REQ

    index: int

    def __post_init__(self) -> None:
        payload.check_range(self, 2 * MAX_DESCRIBED, "index")

    def to_bytes(self) -> bytes:
        return payload.encode(self.index)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DescriptionRequest":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("DESC_REQ"):
            (index,) = payload.decode(data, 1)
            return cls(index=field(index, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorDescription:
    """Device: a value v of this sensor means v × 10^exponent of the unit."""

    KIND: ClassVar = FrameType.DESC

    index: int
    name: str
    quantity: str
    unit: str  # as in UCUM; may be empty
    exponent: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_DESCRIBED - 1, "index")
        payload.check_text(self, MAX_NAME_BYTES, "name", "quantity")
        payload.check_text(self, MAX_UNIT_BYTES, "unit", least=0)
        if abs(self.exponent) > MAX_EXPONENT:
            raise ValueError(f"exponent {self.exponent} is not within -{MAX_EXPONENT}..{MAX_EXPONENT}")

    def to_bytes(self) -> bytes:
        return payload.encode(self.index, _SENSOR, self.name, self.quantity, self.unit, self.exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDescription:
    """Device: a command it knows. COMMAND calls it by its index."""

    KIND: ClassVar = FrameType.DESC

    index: int
    name: str
    argument: str  # what the argument is, for people: "0 or 1"; empty if it takes none

    def __post_init__(self) -> None:
        payload.check_range(self, 2 * MAX_DESCRIBED, "index")
        payload.check_text(self, MAX_NAME_BYTES, "name")
        payload.check_text(self, MAX_NAME_BYTES, "argument", least=0)

    def to_bytes(self) -> bytes:
        return payload.encode(self.index, _COMMAND, self.name, self.argument)


def description_from_bytes(data: bytes) -> SensorDescription | CommandDescription:
    """Raises: WireError."""
    with strict_cbor.invalid_is_corrupt("DESC"):
        kind = payload.decode_at_least(data, 2)[1]
        if kind == _SENSOR:
            return _sensor(payload.decode_at_least(data, 6))
        if kind == _COMMAND:
            return _command(payload.decode_at_least(data, 4))
        raise Unsupported(f"kind {kind!r} of description is not known")


def _sensor(found: list[CborValue]) -> SensorDescription:
    index, _, name, quantity, unit, exponent = found
    return SensorDescription(
        index=field(index, int),
        name=field(name, str),
        quantity=field(quantity, str),
        unit=field(unit, str),
        exponent=field(exponent, int),
    )


def _command(found: list[CborValue]) -> CommandDescription:
    index, _, name, argument = found
    return CommandDescription(index=field(index, int), name=field(name, str), argument=field(argument, str))


def schema_of(descriptions: Iterable[SensorDescription | CommandDescription]) -> int:
    """What HELLO says if these are all the descriptions, in the order of their indices."""
    schema = 0
    for description in descriptions:
        schema = zlib.crc32(description.to_bytes(), schema)
    return schema
