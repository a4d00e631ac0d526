"""Any device that prints lines, or sends frames of a fixed length or with a delimiter, parsed as the settings say."""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from drivers.errors import ConfigError
from drivers.framing import MAX_FRAME_BYTES, Damaged, DelimitedFrames, FixedFrames, Frames
from drivers.mapping import Quantities, fields_of_json, fields_of_match, fields_of_row, fields_of_struct, measure
from drivers.reading import Name, Reading
from drivers.rejects import reason_of
from drivers.serial_driver import SerialDriver, SerialSettings
from runtime.settings import Between, HexBytes, NotEmpty, check_settings


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
            problems.append("quantities: missing; expected a table of what to read")
        if problems:
            raise ConfigError(*problems)

    def _format_problems(self) -> list[str]:
        match self.format:
            case "regex":
                return _pattern_problems(self.pattern)
            case "csv" if not self.columns:
                return ["columns: missing; expected a list of names"]
            case "struct":
                return _layout_problems(self.layout, len(self.columns), self.frame_bytes)
            case _:
                return []

    def _frame_problems(self) -> list[str]:
        if self.frame_bytes and len(bytes.fromhex(self.sync_hex)) > self.frame_bytes:
            return [f"sync_hex: it is longer than the frame of {self.frame_bytes} bytes"]
        return []


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


class SerialLineDecoder:
    def __init__(self, sensor: str, settings: "SerialLineSettings") -> None:
        self._sensor = sensor
        self._settings = settings
        self._frames = _make_frames(settings)
        self._fields_of = _make_parser(settings)

    def feed(self, data: bytes, now_ms: int) -> Sequence[Reading | Damaged]:
        events: list[Reading | Damaged] = []
        for frame in self._frames.feed(data):
            events += [frame] if isinstance(frame, Damaged) else self._read_frame(frame, now_ms)
        return events

    def _read_frame(self, frame: bytes, now_ms: int) -> Sequence[Reading | Damaged]:
        settings, sensor = self._settings, self._sensor
        if settings.format == "raw":
            return [Reading(sensor, settings.quantity, frame, taken_at_ms=now_ms, mime_type=settings.mime_type)]
        try:
            found, unreadable = measure(self._fields_of(frame), settings.quantities)
            readings = [Reading(sensor, name, value, unit, taken_at_ms=now_ms) for name, value, unit in found]
            return [*readings, *(_damaged(problem, frame) for problem in unreadable)]
        except ValueError as error:
            return [_damaged(error, frame)]


def _damaged(error: ValueError, frame: bytes) -> Damaged:
    return Damaged.frame(str(error), frame, reason_of(error))


def _make_frames(settings: "SerialLineSettings") -> Frames:
    if settings.frame_bytes:
        return FixedFrames(settings.frame_bytes, bytes.fromhex(settings.sync_hex))
    return DelimitedFrames(bytes.fromhex(settings.delimiter_hex), settings.max_frame_bytes)


def _make_parser(settings: "SerialLineSettings") -> Callable[[bytes], dict[str, Any]]:
    match settings.format:
        case "regex":
            pattern = re.compile(settings.pattern)
            return lambda frame: fields_of_match(_text(frame), pattern)
        case "csv":
            return lambda frame: fields_of_row(_text(frame), settings.separator, settings.columns)
        case "struct":
            layout = struct.Struct(settings.layout)
            return lambda frame: fields_of_struct(frame, layout, settings.columns)
        case _:
            return fields_of_json


def _text(frame: bytes) -> str:
    """Bytes that are not UTF-8 stay visible, and match nothing by accident."""
    return frame.decode("utf-8", errors="backslashreplace").strip()


def build(name: str, settings: Mapping[str, object], path: str = "") -> "SerialLineDriver":
    return SerialLineDriver(name, check_settings(SerialLineSettings, settings, path))


class SerialLineDriver(SerialDriver[SerialLineDecoder]):
    KIND = "serial_line"

    def __init__(self, name: str, settings: SerialLineSettings) -> None:
        super().__init__(name, settings, lambda: SerialLineDecoder(name, settings))
