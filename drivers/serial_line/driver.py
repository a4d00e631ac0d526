"""Any device that prints lines, or sends frames of one length or with a delimiter."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from drivers.errors import ConfigError
from drivers.framing import MAX_FRAME_BYTES
from drivers.mapping import Quantities
from drivers.serial_driver import SerialDriver, SerialSettings
from drivers.serial_line.decoder import SerialLineDecoder
from drivers.settings import Between, HexBytes, Name, NotEmpty, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialLineSettings(SerialSettings):
    format: Literal["regex", "json", "csv", "struct", "raw"]
    quantities: Quantities = field(default_factory=dict)
    pattern: str = ""  # regex: with a named group per field
    separator: Annotated[str, NotEmpty()] = ","  # csv; a blank one means any run of blanks
    columns: tuple[str, ...] = ()  # csv, struct: names in order; "" leaves one out
    layout: str = ""  # struct: as Python's struct module writes it
    quantity: Name = "frame"  # raw: what the frames are
    mime_type: Name = "application/octet-stream"  # raw
    delimiter_hex: Annotated[str, HexBytes(), NotEmpty()] = "0a"
    max_frame_bytes: Annotated[int, Between(1, MAX_FRAME_BYTES)] = 512
    frame_bytes: Annotated[int, Between(0, MAX_FRAME_BYTES)] = 0  # not 0: frames of this length instead of a delimiter
    sync_hex: Annotated[str, HexBytes()] = ""  # what each frame of one length begins with

    def __post_init__(self) -> None:
        problems = [*self._format_problems(), *self._frame_problems()]
        if self.format != "raw" and not self.quantities:
            problems.append("quantities: missing; a table of what to read is wanted")
        if problems:
            raise ConfigError(*problems)

    def _format_problems(self) -> list[str]:
        match self.format:
            case "regex":
                return _pattern_problems(self.pattern)
            case "csv" if not self.columns:
                return ["columns: missing; a list of names is wanted"]
            case "struct":
                return _layout_problems(self.layout, len(self.columns), self.frame_bytes)
            case _:
                return []

    def _frame_problems(self) -> list[str]:
        if self.frame_bytes and len(bytes.fromhex(self.sync_hex)) > self.frame_bytes:
            return [f"sync_hex: it is longer than the frame of {self.frame_bytes} bytes"]
        return []


def build(name: str, settings: Mapping[str, object], path: str = "") -> "SerialLineDriver":
    return SerialLineDriver(name, check_settings(SerialLineSettings, settings, path))


class SerialLineDriver(SerialDriver[SerialLineDecoder]):
    KIND = "serial_line"

    def __init__(self, name: str, settings: SerialLineSettings) -> None:
        super().__init__(name, settings, lambda: SerialLineDecoder(name, settings))


def _pattern_problems(pattern: str) -> list[str]:
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        return [f"pattern: {error}"]
    return [] if groups else ["pattern: it has no named group, such as (?P<temperature>[0-9.]+)"]


def _layout_problems(layout: str, columns: int, frame_bytes: int) -> list[str]:
    try:
        size = struct.calcsize(layout)
        members = len(struct.unpack(layout, bytes(size))) if size <= MAX_FRAME_BYTES else 0
    except struct.error as error:
        return [f"layout: {error}"]
    if not layout or members != columns:
        return [f"layout: it has {members} members and columns has {columns} names"]
    if frame_bytes and size != frame_bytes:
        return [f"layout: it has {size} bytes and frame_bytes is {frame_bytes}"]
    return []
