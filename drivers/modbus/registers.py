"""Plans the requests for registers, and decodes their words. Pure."""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from drivers.errors import ConfigError
from drivers.reading import MAX_NAME_CHARS, Name, Scalar
from runtime.settings import AtMost, Between

Table = Literal["holding", "input", "coil", "discrete"]
MAX_WORDS: Final = 125  # per request, by the protocol
MAX_BITS: Final = 2000
_FORMATS: Final = {
    "uint16": ">H",
    "int16": ">h",
    "uint32": ">I",
    "int32": ">i",
    "uint64": ">Q",
    "int64": ">q",
    "float32": ">f",
    "float64": ">d",
}
_WORD_BYTES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One quantity: value = raw * scale + offset."""

    quantity: Name
    address: Annotated[int, Between(0, 65_535)]  # as on the wire: from 0, without the 4 of 40001
    table: Table = "holding"
    type: Literal["uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "bit"] = "uint16"
    word_order: Literal["big", "little"] = "big"  # of values of several words: which comes first
    scale: float = 1.0
    offset: float = 0.0
    unit: Annotated[str, AtMost(MAX_NAME_CHARS)] = ""
    invalid: int | None = None  # the raw value that means: no measurement

    def __post_init__(self) -> None:
        problems = []
        if self.is_bit != (self.type == "bit"):
            problems.append(f"type: {self.type} does not go with table {self.table}; only coil and discrete hold bits")
        if self.address + self.width > 65_536:
            problems.append(f"address: {self.type} at {self.address} goes beyond 65535")
        if problems:
            raise ConfigError(*problems)

    @property
    def is_bit(self) -> bool:
        return self.table in ("coil", "discrete")

    @property
    def width(self) -> int:
        """In words, or 1 bit."""
        return 1 if self.type == "bit" else struct.calcsize(_FORMATS[self.type]) // _WORD_BYTES


@dataclass(frozen=True, slots=True)
class Batch:
    """One request."""

    table: Table
    address: int
    count: int
    registers: tuple[Register, ...]


def plan_batches(registers: Sequence[Register], max_gap: int) -> list[Batch]:
    """The fewest requests: registers of one table that are at most `max_gap` apart are read together."""
    batches: list[Batch] = []
    for register in sorted(registers, key=lambda each: (each.table, each.address)):
        last = batches[-1] if batches else None
        if last is not None and _fits(last, register, max_gap):
            count = max(last.count, register.address + register.width - last.address)
            batches[-1] = Batch(last.table, last.address, count, (*last.registers, register))
        else:
            batches.append(Batch(register.table, register.address, register.width, (register,)))
    return batches


def _fits(batch: Batch, register: Register, max_gap: int) -> bool:
    limit = MAX_BITS if register.is_bit else MAX_WORDS
    return (
        batch.table == register.table
        and register.address - (batch.address + batch.count) <= max_gap
        and register.address + register.width - batch.address <= limit
    )


def read_register(register: Register, words: Sequence[int | bool]) -> Scalar | None:
    """The value from its words; None if the device marks it as invalid, or it is not a finite number."""
    if register.type == "bit":
        return bool(words[0])
    ordered = list(words) if register.word_order == "big" else list(reversed(words))
    (raw,) = struct.unpack(_FORMATS[register.type], struct.pack(f">{len(ordered)}H", *ordered))
    if raw == register.invalid or not math.isfinite(raw):
        return None
    if register.scale == 1 and not register.offset:
        return float(raw) if isinstance(raw, float) else int(raw)
    scaled = raw * register.scale + register.offset
    return float(round(scaled, 9)) if math.isfinite(scaled) else None
