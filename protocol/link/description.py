"""The descriptions of a device's sensors and commands, so that the host needs no configuration for them.

Descriptions are numbered: the sensors from 0, the commands after them. They do not change while the firmware runs. A
host that knows the descriptions of this device, firmware and schema need not request them again.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from protocol import strict_cbor
from protocol.checks import check_within
from protocol.errors import Unsupported
from protocol.link import payload
from protocol.link.frame import FrameType
from protocol.link.session_messages import MAX_DESCRIBED, MAX_NAME_BYTES
from protocol.strict_cbor import types_of_fields

MAX_UNIT_BYTES: Final = 16
MAX_EXPONENT: Final = 18
_SENSOR, _COMMAND = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionRequest(payload.LinkMessage):
    """Host to device: request the description with this index."""

    KIND = FrameType.DESC_REQ

    index: int

    def __post_init__(self) -> None:
        payload.check_range(self, 2 * MAX_DESCRIBED, "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorDescription:
    """Device to host: one sensor. A value v of it means v × 10^exponent of the unit."""

    KIND: ClassVar = FrameType.DESC

    index: int
    name: str
    quantity: str
    unit: str  # UCUM code; may be empty
    exponent: int

    def __post_init__(self) -> None:
        payload.check_range(self, MAX_DESCRIBED - 1, "index")
        payload.check_text(self, MAX_NAME_BYTES, "name", "quantity")
        payload.check_text(self, MAX_UNIT_BYTES, "unit", least=0)
        check_within("exponent", self.exponent, -MAX_EXPONENT, MAX_EXPONENT)

    def to_bytes(self) -> bytes:
        return payload.encode(self.index, _SENSOR, self.name, self.quantity, self.unit, self.exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDescription:
    """Device to host: one command. COMMAND names it by its index."""

    KIND: ClassVar = FrameType.DESC

    index: int
    name: str
    argument: str  # for people: "0 or 1"; empty if the command has no argument

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
        if kind not in (_SENSOR, _COMMAND):
            raise Unsupported(f"kind {kind!r} of description is not known")
        described: type[SensorDescription | CommandDescription] = (
            SensorDescription if kind == _SENSOR else CommandDescription
        )
        index, _, *others = payload.decode_at_least(data, 1 + len(types_of_fields(described)))
        return payload.build(described, [index, *others])


def schema_of(descriptions: Iterable[SensorDescription | CommandDescription]) -> int:
    """The schema in HELLO: the CRC-32 of all descriptions, in the order of their indices."""
    schema = 0
    for description in descriptions:
        schema = zlib.crc32(description.to_bytes(), schema)
    return schema
