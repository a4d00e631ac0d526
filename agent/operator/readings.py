"""The readings in the content of a message, as people, scripts and tables see them."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from protocol.errors import Corrupt, WireError
from protocol.events import MEDIA_TYPE
from protocol.iomessage import IoMessage
from protocol.iomessage.content import carries_io_message, decode_content
from protocol.scalars import Scalar, decode_scalar, unit_of
from protocol.shown_text import printable_start, utc_text
from protocol.strict_cbor import CborBounds, decode

NOTICE_BOUNDS: Final = CborBounds(max_bytes=8192, max_items=64, max_depth=4)
MAX_SHOWN_CHARACTERS: Final = 300
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # of a JSON writer


def readings_in(content: str) -> tuple[IoMessage, ...]:
    """The readings of a content, in their order; none where it holds something else.

    Raises: WireError if it begins like one of the forms of a reading or a pack, and is none.
    """
    try:
        found = decode_content(content)
    except WireError:
        if carries_io_message(content):
            raise
        return ()
    if all(map(_is_reading, found)):
        return tuple(found)
    if not carries_io_message(content):
        return ()  # other JSON
    raise Corrupt("a reading without an info format or a content")


def _is_reading(message: IoMessage) -> bool:
    return bool(message.info_format) and message.content_data is not None


def sensor_of(message: IoMessage) -> str | None:
    """The sensor's name for people, which the Tag holds; of writers that set none, the Publisher."""
    return message.tag or message.publisher


def scalar_of(message: IoMessage) -> Scalar:
    """The value; None if it is not a scalar, or null."""
    if unit_of(message.info_format or "") is None:
        return None
    try:
        return decode_scalar(message.content_data or b"")
    except WireError:
        return None


def summary_of(message: IoMessage) -> str:
    """A reading as sensor, quantity, value and unit; an event of the agent as its name and fields."""
    if (notice := _notice(message)) is not None:
        parts = [sensor_of(message), message.info_type, *(f"{name}={value}" for name, value in notice.items())]
    else:
        parts = [sensor_of(message), message.info_type, _value_text(message), _unit_text(message)]
    return " ".join(part for part in parts if part)


def as_json(message: IoMessage) -> dict[str, Any]:
    """A reading for scripts; `value` is null where JSON cannot hold it, `io_message` holds every field."""
    return {
        "sensor": sensor_of(message),
        "quantity": message.info_type,
        "value": _json_value(message),
        "unit": unit_of(message.info_format or ""),
        "taken_at_ms": message.timestamp,
        "io_message": orjson.loads(message.to_json()),
    }


def table_lines(messages: Iterable[IoMessage]) -> Iterator[str]:
    """One line per reading, in columns: time, sensor, quantity, value and unit."""
    rows = [_row(message) for message in messages]
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def time_text(timestamp_ms: int) -> str:
    return utc_text(timestamp_ms).replace("+00:00", "Z")


def printable(text: str) -> str:
    """On one line of bounded length, with nothing in it that a terminal would obey."""
    return printable_start(text, MAX_SHOWN_CHARACTERS)


def _row(message: IoMessage) -> list[str]:
    at = "" if message.timestamp is None else time_text(message.timestamp)
    if (notice := _notice(message)) is not None:
        value = " ".join(f"{name}={field}" for name, field in notice.items())
    else:
        value = f"{_value_text(message)} {_unit_text(message)}".rstrip()
    return [at, *map(printable, (sensor_of(message) or "", message.info_type or "", value))]


def _value_text(message: IoMessage) -> str:
    value = scalar_of(message)
    return f"{len(message.content_data or b'')} bytes" if value is None else str(value)


def _unit_text(message: IoMessage) -> str:
    """The unit; of other formats than scalars, the format."""
    unit = unit_of(message.info_format or "")
    return message.info_format or "" if unit is None else unit


def _notice(message: IoMessage) -> dict[str, Any] | None:
    """The fields of an event: a small CBOR map."""
    if message.info_format != MEDIA_TYPE:
        return None
    try:
        fields = decode(message.content_data or b"", NOTICE_BOUNDS)
    except WireError:
        return None
    return _writable(fields) if isinstance(fields, dict) else None


def _json_value(message: IoMessage) -> Any:
    if (notice := _notice(message)) is not None:
        return notice
    value = scalar_of(message)
    return None if isinstance(value, bytes) else _writable(value)


def _writable(value: Any) -> Any:
    """A value of CBOR as JSON can hold it: bytes in hex, null for a number that JSON has no form for."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {name: _writable(each) for name, each in value.items()}
        case list():
            return [_writable(each) for each in value]
        case int() if not MIN_INTEGER <= value <= MAX_INTEGER:
            return None
        case float() if not math.isfinite(value):
            return None
    return value
