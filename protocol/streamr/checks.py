"""Checks of the fields of Streamr messages, and the errors they raise.

A constructor raises `FieldError`, which names the field; a decoder adds the place of that field in the message.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final, NoReturn, Self

import orjson

from protocol.errors import Corrupt, Unsupported, WireError

MAX_READABLE_INTEGER: Final = 2**64 - 1  # the JSON reader gives larger numbers as floats
WHOLE_NUMBER: Final = "a whole number, 0 or more"
FILLED_TEXT: Final = "a string that is not empty"
TEXT: Final = "a string"
OPTIONAL_TEXT: Final = "a string or null"
MAX_SHOWN_CHARACTERS: Final = 40

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
Check = Callable[[str, object], None]
"""Takes a field's name and value; raises `FieldError`."""


class FieldError(ValueError):
    """A field has an invalid value. `place` is where a decoder found it: `[1][2]`."""

    def __init__(self, field: str, problem: str, place: str = "") -> None:
        super().__init__(f"{place} {field}: {problem}" if place else f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self.place = place

    def within(self, place: str) -> Self:
        """The same error, with its place seen from the enclosing element."""
        return type(self)(self.field, self.problem, place + self.place)


class UnknownKindError(FieldError):
    """A version or type that this reader does not know."""


def wire_error(problem: FieldError) -> WireError:
    """The error that a decoder raises for an invalid field."""
    return (Unsupported if isinstance(problem, UnknownKindError) else Corrupt)(str(problem))


def check_text(field: str, value: object) -> None:
    if type(value) is not str:
        refuse(field, value, TEXT)


def check_filled_text(field: str, value: object) -> None:
    if type(value) is not str or not value:
        refuse(field, value, FILLED_TEXT)


def check_optional_text(field: str, value: object) -> None:
    if value is not None and type(value) is not str:
        refuse(field, value, OPTIONAL_TEXT)


def check_count(field: str, value: object) -> None:
    if type(value) is not int or value < 0:
        refuse(field, value, WHOLE_NUMBER)


def check_optional_count(field: str, value: object) -> None:
    if value is not None:
        check_count(field, value)


def check_optional_integer(field: str, value: object) -> None:
    if value is not None and type(value) is not int:
        refuse(field, value, "a whole number or null")


def check_texts(field: str, values: object) -> None:
    if type(values) is not tuple or not all(type(value) is str for value in values):
        refuse(field, values, "an array of strings")


def check_json(field: str, value: object) -> None:
    """Refuse free-form JSON that cannot be written: nested too deep, or with a number that readers would round."""
    try:
        orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as problem:
        raise FieldError(field, f"is not JSON that can be written: {problem}") from problem


def check_fields(value: object, checks: Mapping[str, Check]) -> None:
    """Check every field of a dataclass by its name."""
    kind: Any = type(value)
    for name in field_names(kind):
        checks[name](name, getattr(value, name))


def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


field_names: Final[Callable[[Any], tuple[str, ...]]] = cache(_field_names)
"""The fields of a dataclass that its constructor has as arguments, in their order."""


def refuse(field: str, value: object, expected: str) -> NoReturn:
    raise FieldError(field, f"must be {expected}, not {shown(value)}")


def shown(value: object) -> str:
    """The value for an error text, always short. Strings are not quoted: any of them may be a token."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"a string of {len(value)}"
        case list() | tuple():
            return f"an array of {len(value)}"
        case dict():
            return "an object"
    return str(value)[:MAX_SHOWN_CHARACTERS]
