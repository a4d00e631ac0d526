"""Maps texts, JSON documents, rows and records to quantities with units. Pure."""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import orjson

from drivers.reading import MAX_NAME_CHARS, MAX_TEXT_CHARS, Reading, Scalar, checked_reading
from drivers.rejects import Unreadable, reason_of
from runtime.settings import Between

MAX_JSON_DEPTH: Final = 8
MAX_FIELDS: Final = 256
MAX_SHOWN_CHARS: Final = 40
MAX_NUMBER_CHARS: Final = 400  # bounds the cost of refusing a long text
ON: Final = frozenset({"1", "on", "true", "yes", "open", "online", "high"})
_NESTED: Final = frozenset({dict, list})
_NUMBERS: Final[frozenset[type[float]]] = frozenset({int, float})
_WITH_COMMA: Final = re.compile(r"[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]*),[0-9]*([eE][+-]?[0-9]+)?")  # 1.234,5
_NOTHING_FOUND: Final = "it contains none of the quantities"
OFF: Final = frozenset({"0", "off", "false", "no", "closed", "offline", "low"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """How one quantity is found and converted: value = raw * scale + offset."""

    field: str = ""  # the JSON path (a.b.0), group or column; default: the quantity's own name
    decimal_comma: bool = False  # numbers in texts are written 19,4 or 1.234,5
    unit: str = ""
    kind: Literal["number", "boolean", "text"] = "number"
    scale: float = 1.0
    offset: float = 0.0
    decimals: Annotated[int, Between(0, 15)] | None = None  # round to these after scaling

    def __post_init__(self) -> None:
        if len(self.unit) > MAX_NAME_CHARS:
            raise ValueError(f"unit is longer than {MAX_NAME_CHARS} characters")

    @property
    def is_plain(self) -> bool:
        """Whether a finite number is its value as it stands."""
        return self.kind == "number" and self.scale == 1 and not self.offset and self.decimals is None


Quantities = dict[str, Quantity]
Fields = Mapping[str, Any]
PayloadReader = Callable[[bytes, int, int | None], list[Reading]]  # payload, taken_at_ms, token; raises ValueError
Reject = Callable[[str, str, bytes, int], None]  # sensor, reason, raw, at_ms; as `Rejects.note`


def measure(
    fields: Fields, quantities: Mapping[str, Quantity]
) -> tuple[list[tuple[str, Scalar, str]], list[Unreadable]]:
    """(name, value, unit) of every quantity that is present, and the problem of each that cannot be read.

    Raises ValueError if none is present.
    """
    found: list[tuple[str, Scalar, str]] = []
    unreadable: list[Unreadable] = []
    for name, quantity in quantities.items():
        raw = fields.get(quantity.field or name)
        if raw is None or raw == "":
            continue
        try:
            found.append((name, _value_of(name, raw, quantity), quantity.unit))
        except Unreadable as problem:
            unreadable.append(problem)
    if not found and not unreadable:
        raise ValueError(_NOTHING_FOUND)
    return found, unreadable


def reader_of(
    sensor: str, quantities: Mapping[str, Quantity], fields_of: Callable[[bytes], Fields], reject: Reject
) -> PayloadReader:
    """A reader for the payloads of one sensor; the names are checked once, here.

    A quantity that cannot be read is rejected, and the others are read.
    """
    plan = [
        (quantity.field or name, name, quantity.unit, quantity.is_plain and _is_valid(sensor, name), quantity)
        for name, quantity in quantities.items()
    ]

    def read(payload: bytes, taken_at_ms: int, token: int | None) -> list[Reading]:
        fields = fields_of(payload)
        readings: list[Reading] = []
        is_rejected = False
        for field, name, unit, is_valid_and_plain, quantity in plan:
            raw = fields.get(field)
            if is_valid_and_plain and raw.__class__ in _NUMBERS and math.isfinite(raw):  # as nearly all are
                readings.append(checked_reading((sensor, name, raw, unit, taken_at_ms, "", token)))
            elif raw is not None and raw != "":
                try:
                    value = _value_of(name, raw, quantity)
                    readings.append(Reading(sensor, name, value, unit, taken_at_ms=taken_at_ms, token=token))
                except ValueError as problem:
                    reject(sensor, reason_of(problem), payload, taken_at_ms)
                    is_rejected = True
        if not readings and not is_rejected:
            raise ValueError(_NOTHING_FOUND)
        return readings

    return read


def _is_valid(sensor: str, quantity: str) -> bool:
    """Whether a reading can have these names."""
    try:
        Reading(sensor, quantity, 0, taken_at_ms=0)
    except ValueError:
        return False
    return True


def _value_of(name: str, raw: Any, quantity: Quantity) -> Scalar:
    kind = quantity.kind
    if kind == "number":
        return _as_number(name, raw, quantity)
    return str(raw)[:MAX_TEXT_CHARS] if kind == "text" else _as_boolean(name, raw)


def _as_boolean(name: str, raw: Any) -> bool:
    word = str(raw).strip().lower()
    if word in ON:
        return True
    if word in OFF:
        return False
    raise Unreadable(f"{name} is neither on nor off", shown(word))


def _parsed(raw: Any, has_decimal_comma: bool) -> float:
    """Raises: ValueError, TypeError."""
    if not isinstance(raw, str):
        return float(raw)
    if len(raw) > MAX_NUMBER_CHARS:
        raise ValueError("too long for a number")
    if has_decimal_comma and "," in raw:
        if _WITH_COMMA.fullmatch(raw.strip()) is None:
            raise ValueError("not a number with a decimal comma")
        raw = raw.replace(".", "").replace(",", ".")
    return float(raw)


def shown(raw: Any) -> str:
    """The beginning of a value, for an error message."""
    return repr(raw[:MAX_SHOWN_CHARS] if isinstance(raw, str | bytes) else raw)[:MAX_SHOWN_CHARS]


def _as_number(name: str, raw: Any, quantity: Quantity) -> float | int:
    is_number = raw.__class__ in _NUMBERS
    try:
        number = raw if is_number else _parsed(raw, quantity.decimal_comma)
    except (ValueError, TypeError):
        raise Unreadable(f"{name} is not a number", shown(raw)) from None
    if quantity.scale != 1 or quantity.offset:
        number = number * quantity.scale + quantity.offset
    if not math.isfinite(number):
        raise Unreadable(f"{name} is not a finite number", str(number))
    return number if quantity.decimals is None else round(number, quantity.decimals)


def fields_of_json(payload: bytes) -> dict[str, Any]:
    """The leaves of a document by their dotted paths. Raises ValueError."""
    document = orjson.loads(payload)
    if isinstance(document, dict) and len(document) <= MAX_FIELDS and _NESTED.isdisjoint(map(type, document.values())):
        return document  # the most common kind: all leaves
    fields: dict[str, Any] = {}
    _flatten(document, "", fields, 0)
    return fields


def _flatten(node: Any, path: str, fields: dict[str, Any], depth: int) -> None:
    if depth > MAX_JSON_DEPTH or len(fields) > MAX_FIELDS:
        raise ValueError(f"the document is deeper than {MAX_JSON_DEPTH} or has more than {MAX_FIELDS} fields")
    match node:
        case dict():
            for key, value in node.items():
                _flatten(value, f"{path}.{key}" if path else key, fields, depth + 1)
        case list():
            for index, value in enumerate(node):
                _flatten(value, f"{path}.{index}" if path else str(index), fields, depth + 1)
        case _:
            fields[path] = node


def fields_of_row(text: str, separator: str, columns: Sequence[str]) -> dict[str, str]:
    """The cells of a row by the names of their columns; a column named "" is left out. Raises ValueError."""
    cells = text.split(separator) if separator.strip() else text.split()
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells where {len(columns)} are expected")
    return {column: cell.strip() for column, cell in zip(columns, cells, strict=True) if column}


def fields_of_struct(frame: bytes, layout: struct.Struct, columns: Sequence[str]) -> dict[str, Any]:
    """The members of a packed record. Raises ValueError."""
    if len(frame) != layout.size:
        raise ValueError(f"{len(frame)} bytes where {layout.size} are expected")
    return {column: value for column, value in zip(columns, layout.unpack(frame), strict=True) if column}


def fields_of_match(text: str, pattern: re.Pattern[str]) -> dict[str, str | None]:
    """The named groups of a pattern, found anywhere in the text. Raises ValueError."""
    match = pattern.search(text)
    if match is None:
        raise ValueError("it does not match the pattern")
    return match.groupdict()
