"""The twenty fields of ioMessage v4: names, kinds, limits. Everything else in this package follows this table.

| kind    | absent | limit                         | in JSON and XML |
|---------|--------|-------------------------------|-----------------|
| text    | None   | encoded UTF-8 bytes, by field | as it is        |
| integer | None   | unsigned, 64 bits             | decimal         |
| bytes   | None   | 2^32 - 1 bytes                | base64          |

The safe limits are those that every known decoder reads: some read a one-byte length above 127 as negative.
"""

import struct
from enum import IntFlag
from operator import itemgetter
from typing import Any, Final, NamedTuple

from protocol.errors import Corrupt

VERSION: Final = 4
MAX_INTEGER: Final = 2**64 - 1
MAX_BLOB_BYTES: Final = 2**32 - 1
DOUBLE_ONE: Final = 0x3FF0_0000_0000_0000  # the 64 bits of the IEEE-754 double 1.0; larger doubles are larger integers
MAX_EXACT_DOUBLE: Final = 2**53


class Quirk(IntFlag):
    """Deviations that a reader tolerated."""

    NONE = 0
    LATIN1_TEXT = 1  # a text was not UTF-8 and was read as Latin-1
    DOUBLE_INTEGER = 2  # a timestamp or chain position was written as an IEEE-754 double
    RAW_CONTENT = 4  # in XML, contents were not in base64


class Fields(NamedTuple):
    """The fields in the order of the binary embodiment, `version` where the document lists it; then how it was read."""

    id: str | None = None
    tag: str | None = None
    group_id: str | None = None
    sequence_number: int | None = None
    sequence_total: int | None = None
    priority: int | None = None  # lower number = more important
    timestamp: int | None = None  # UTC milliseconds
    publisher: str | None = None
    auth_id: str | None = None
    auth_group: str | None = None
    version: int = VERSION
    chain_position: int | None = None
    hash: str | None = None
    previous_hash: str | None = None
    nonce: str | None = None
    difficulty_target: int | None = None
    info_type: str | None = None
    info_format: str | None = None
    context_data: bytes | None = None
    content_data: bytes | None = None
    quirks: Quirk = Quirk.NONE


class Limit(NamedTuple):
    """The largest encoded size in bytes for text, the largest value for an integer."""

    hard: int
    safe: int


_TEXT_OF_ONE_LENGTH_BYTE = Limit(hard=0xFF, safe=0x7F)
_TEXT_OF_TWO_LENGTH_BYTES = Limit(hard=0xFFFF, safe=0x7FFF)

TEXT_LIMITS: Final = {
    "id": _TEXT_OF_ONE_LENGTH_BYTE,
    "tag": _TEXT_OF_TWO_LENGTH_BYTES,
    "group_id": _TEXT_OF_ONE_LENGTH_BYTE,
    "publisher": _TEXT_OF_ONE_LENGTH_BYTE,
    "auth_id": _TEXT_OF_TWO_LENGTH_BYTES,
    "auth_group": _TEXT_OF_TWO_LENGTH_BYTES,
    "hash": _TEXT_OF_TWO_LENGTH_BYTES,
    "previous_hash": _TEXT_OF_TWO_LENGTH_BYTES,
    "nonce": _TEXT_OF_TWO_LENGTH_BYTES,
    "info_type": _TEXT_OF_ONE_LENGTH_BYTE,
    "info_format": _TEXT_OF_ONE_LENGTH_BYTE,
}
INTEGER_LIMITS: Final = {
    "sequence_number": Limit(hard=MAX_INTEGER, safe=2**31 - 1),
    "sequence_total": Limit(hard=MAX_INTEGER, safe=2**31 - 1),
    "priority": Limit(hard=MAX_INTEGER, safe=127),
    "timestamp": Limit(hard=MAX_INTEGER, safe=2**48 - 1),
    "chain_position": Limit(hard=MAX_INTEGER, safe=2**48 - 1),
    "difficulty_target": Limit(hard=MAX_INTEGER, safe=2**31 - 1),
}
BLOB_NAMES: Final = ("context_data", "content_data")
REQUIRED: Final = ("id", "timestamp", "publisher", "info_type", "info_format", "content_data")
MAYBE_DOUBLE: Final = ("timestamp", "chain_position")

JSON_KEYS: Final = {name: name.replace("_", "") for name in Fields._fields if name != "quirks"}


def _getter(*names: str) -> "itemgetter[Any]":
    return itemgetter(*map(Fields._fields.index, names))


_short_texts_of = _getter(*(name for name, limit in TEXT_LIMITS.items() if limit is _TEXT_OF_ONE_LENGTH_BYTE))
_long_texts_of = _getter(*(name for name, limit in TEXT_LIMITS.items() if limit is _TEXT_OF_TWO_LENGTH_BYTES))
_integers_of = _getter(*INTEGER_LIMITS)
_blobs_of = _getter(*BLOB_NAMES)
_SAFE_LIMITS = tuple((name, limit.safe) for name, limit in (TEXT_LIMITS | INTEGER_LIMITS).items())


def missing_fields(fields: Fields) -> tuple[str, ...]:
    """The required fields that are absent. An empty text counts as absent, empty content does not."""
    return tuple(name for name in REQUIRED if getattr(fields, name) is None or getattr(fields, name) == "")


def fields_beyond_safe_limits(fields: Fields) -> tuple[str, ...]:
    """The fields that some known decoder would misread, though they are within the format's own limits."""
    return tuple(name for name, safe in _SAFE_LIMITS if _size(getattr(fields, name)) > safe)


def _size(value: str | int | None) -> int:
    return len(value.encode()) if isinstance(value, str) else value or 0


def check_fields(fields: Fields) -> None:
    """Refuse fields that the format cannot carry.

    Raises:
        Corrupt: naming the field, its value and its limit.
    """
    if not _obviously_fits(fields):
        _check_each(fields)


def _obviously_fits(fields: Fields) -> bool:
    """A quick check that nearly every message passes: texts that fit together fit one by one."""
    return (
        _are_short_ascii(_short_texts_of(fields), _TEXT_OF_ONE_LENGTH_BYTE.hard)
        and _are_short_ascii(_long_texts_of(fields), _TEXT_OF_TWO_LENGTH_BYTES.hard)
        and all(map(_is_small_integer, _integers_of(fields)))
        and all(map(_is_blob, _blobs_of(fields)))
        and fields.version == VERSION
    )


def _are_short_ascii(texts: tuple[str | None, ...], max_bytes: int) -> bool:
    try:
        joined = "".join([text for text in texts if text is not None])
    except TypeError:
        return False
    return joined.isascii() and len(joined) <= max_bytes


def _is_small_integer(number: object) -> bool:
    return number is None or (type(number) is int and 0 <= number < DOUBLE_ONE)


def _is_blob(blob: object) -> bool:
    return blob is None or (type(blob) is bytes and len(blob) <= MAX_BLOB_BYTES)


def _check_each(fields: Fields) -> None:
    for name, limit in TEXT_LIMITS.items():
        if (text := getattr(fields, name)) is not None:
            _check_text(name, text, limit.hard)
    for name in INTEGER_LIMITS:
        if (number := getattr(fields, name)) is not None:
            _check_integer(name, number)
    for name in BLOB_NAMES:
        if (blob := getattr(fields, name)) is not None:
            _check_blob(name, blob)
    if fields.version != VERSION:
        raise Corrupt(f"version must be {VERSION}, not {fields.version!r:.40}")


def _check_text(name: str, text: object, max_bytes: int) -> None:
    if not isinstance(text, str):
        raise Corrupt(f"{name} must be text, not {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Corrupt(f"{name} holds a lone surrogate at character {error.start}, which UTF-8 cannot carry") from None
    if size > max_bytes:
        raise Corrupt(f"{name} is {size} bytes long in UTF-8; the limit is {max_bytes}")


def _check_integer(name: str, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise Corrupt(f"{name} must be an integer, not {type(number).__name__}")
    if not 0 <= number <= MAX_INTEGER:
        raise Corrupt(f"{name} must be between 0 and {MAX_INTEGER}, and is {_short(number)}")
    if name in MAYBE_DOUBLE and (double := double_in(number)) is not None:
        raise Corrupt(f"{name} {number} is refused: readers would read its 8 bytes as the double {double}.0")


def _short(number: int) -> str:
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def _check_blob(name: str, blob: object) -> None:
    if not isinstance(blob, bytes):
        raise Corrupt(f"{name} must be bytes, not {type(blob).__name__}")
    if len(blob) > MAX_BLOB_BYTES:
        raise Corrupt(f"{name} is {len(blob)} bytes long; the limit is {MAX_BLOB_BYTES}")


def double_in(number: int) -> int | None:
    """The whole number that these 64 bits are as an IEEE-754 double, or None. Some writers encode time in this way."""
    if number < DOUBLE_ONE:
        return None
    double: float = struct.unpack(">d", number.to_bytes(8, "big"))[0]
    return int(double) if 1 <= double < MAX_EXACT_DOUBLE and double.is_integer() else None
