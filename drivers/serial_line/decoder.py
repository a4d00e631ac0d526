"""From the bytes of a serial line to readings, as the settings say. Pure."""

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from drivers.framing import Damaged, DelimitedFrames, FixedFrames, Frames
from drivers.mapping import fields_of_json, fields_of_match, fields_of_row, fields_of_struct, measure
from drivers.reading import Reading

if TYPE_CHECKING:
    from drivers.serial_line.driver import SerialLineSettings

__all__ = ["SerialLineDecoder"]


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
            found = measure(self._fields_of(frame), settings.quantities)
            return [Reading(sensor, name, value, unit, taken_at_ms=now_ms) for name, value, unit in found]
        except ValueError as error:
            return [Damaged.frame(str(error), frame)]


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
