"""Converts a plain table to a typed, frozen value, and reports every problem at once with its dotted path.

The schema is a frozen dataclass. Its annotations are the rules:

| annotation | accepts |
|---|---|
| `str`, `bool`, `int`, `float` | exactly this type; a float also accepts a whole number |
| `Path` | a string |
| `Literal["a", "b"]` | one of these |
| a `StrEnum` | one of its values |
| `tuple[T, ...]`, `frozenset[T]` | a list; a single T is an error |
| `dict[str, T]` | a table with any keys |
| a dataclass | a table |
| `T | None` | T; absent is None |
| `Annotated[T, check, …]` | T that passes every check (`Between`, `AtMost`, …), in this order |

A dataclass checks several fields together in `__post_init__`, and raises `ConfigError` with one `field: problem` per
problem, or ValueError. It runs only if each field alone is valid. Unknown keys are errors.
"""

import dataclasses
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

from runtime.errors import ConfigError
from runtime.local_paths import is_uri
from runtime.toml_file import dotted

T = TypeVar("T")
MAX_SHOWN_CHARS: Final = 40
MAX_DEPTH: Final = 16
MAX_PORT: Final = 65_535
_MISSING: Final = object()


class Check(Protocol):
    def problem(self, value: Any) -> str:
        """The problem of a value of the right type; "" if there is none."""


@dataclass(frozen=True, slots=True)
class Between:
    low: float
    high: float

    def problem(self, value: float) -> str:
        return "" if self.low <= value <= self.high else f"{value} is not between {self.low:g} and {self.high:g}"


@dataclass(frozen=True, slots=True)
class Positive:
    def problem(self, value: float) -> str:
        return "" if value > 0 else f"{value} is not positive"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    def problem(self, value: Any) -> str:
        return "" if len(value) else "must not be empty"


@dataclass(frozen=True, slots=True)
class AtMost:
    chars: int

    def problem(self, value: str) -> str:
        return "" if len(value) <= self.chars else f"{_shown(value)} is longer than {self.chars} characters"


@dataclass(frozen=True, slots=True)
class Matching:
    pattern: str
    example: str

    def problem(self, value: str) -> str:
        return "" if re.fullmatch(self.pattern, value) else f"{_shown(value)} does not look like {self.example}"


@dataclass(frozen=True, slots=True)
class HexBytes:
    def problem(self, value: str) -> str:
        try:
            bytes.fromhex(value)
        except ValueError:
            return f'{_shown(value)} is not bytes in hex, such as "0d0a"'
        return ""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    def problem(self, value: str) -> str:
        try:
            parse_listen(value)
        except ValueError as error:
            return str(error)
        return ""


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, an IPv6 host in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= len(str(MAX_PORT)) and int(port) <= MAX_PORT
    if not host or not is_port:
        raise ValueError(f"{_shown(text)} is not HOST:PORT, such as 127.0.0.1:8440 or [::]:8440")
    return host.removeprefix("[").removesuffix("]"), int(port)


def listen_option(option: str, text: str) -> tuple[str, int]:
    """The same for an option of a command. Raises: ConfigError, which names the option."""
    try:
        return parse_listen(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


Text = Annotated[str, NotEmpty()]
Seconds = Annotated[float, Between(0.001, 86_400 * 366)]
Port = Annotated[int, Between(1, MAX_PORT)]


def placeholder_problem(template: str, known: Collection[str]) -> str:
    """Only `{name}` of a known name is accepted: a width such as `{name:>999999999}` would fill the memory."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return f"a placeholder is wrong: {error}"
    fields = [part[1:] for part in parts if part[1] is not None]
    if not all(name and name.isidentifier() and not form and not change for name, form, change in fields):
        return "a placeholder is wrong: only a name is allowed in braces"
    if not all(name in known for name, _, _ in fields):
        return f"a placeholder is wrong; known are {', '.join(f'{{{name}}}' for name in known)}"
    return ""


def check_settings(schema: type[T], table: Mapping[str, object], path: str = "") -> T:
    """Convert a table to a value of the schema. Raises: ConfigError, with every problem under `path`."""
    problems: list[str] = []
    value = _read_table(schema, table, path, problems, 0)
    if problems:
        raise ConfigError(*problems)
    return typing.cast("T", value)


def _read_table(schema: type, table: Mapping[str, object], path: str, problems: list[str], depth: int) -> object:
    if depth > MAX_DEPTH:
        problems.append(f"{path}: tables go deeper than {MAX_DEPTH}")
        return _MISSING
    known = {field.name: field for field in dataclasses.fields(schema) if field.init}
    found_before = len(problems)
    problems += [f"{dotted(path, str(key))}: {_unknown(str(key), known)}" for key in table if key not in known]
    annotations = typing.get_type_hints(schema, include_extras=True)
    values = {}
    for name, field in known.items():
        if name in table:
            values[name] = _read(annotations[name], table[name], dotted(path, name), problems, depth)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append(f"{dotted(path, name)}: missing; expected {_expected(annotations[name])}")
    if len(problems) > found_before:
        return _MISSING
    return _construct(schema, values, path, problems)


def _construct(schema: type, values: dict[str, object], path: str, problems: list[str]) -> object:
    try:
        return schema(**values)
    except ConfigError as error:
        problems += [f"{path}.{problem}" if path else problem for problem in error.problems]
    except ValueError as error:
        problems.append(f"{path}: {error}" if path else str(error))
    return _MISSING


def _read(annotation: Any, given: object, path: str, problems: list[str], depth: int) -> object:
    """The value; or `_MISSING`, with a problem added to `problems`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _read_checked(arguments, given, path, problems, depth)
    if origin in (types.UnionType, typing.Union):  # T | None; there are no other unions
        return _read(next(a for a in arguments if a is not types.NoneType), given, path, problems, depth)
    if origin in (tuple, frozenset) and isinstance(given, list):
        items = (_read(arguments[0], item, f"{path}[{i}]", problems, depth + 1) for i, item in enumerate(given))
        return tuple(items) if origin is tuple else frozenset(items)
    if origin is dict and isinstance(given, Mapping):
        return {str(k): _read(arguments[1], v, dotted(path, str(k)), problems, depth + 1) for k, v in given.items()}
    if dataclasses.is_dataclass(annotation) and isinstance(given, Mapping):
        return _read_table(typing.cast("type", annotation), given, path, problems, depth + 1)
    if origin is Literal and given in arguments and not isinstance(given, bool | float):
        return given
    if _is_choice(annotation) and isinstance(given, str) and given in list(annotation):
        return annotation(given)
    if read := _SIMPLE.get(annotation):
        value = read(given)
        if value is not _MISSING:
            return value
    problems.append(f"{path}: {_shown(given)} is not {_expected(annotation)}")
    return _MISSING


def _read_checked(arguments: tuple[Any, ...], given: object, path: str, problems: list[str], depth: int) -> object:
    annotation, *checks = arguments
    found_before = len(problems)
    value = _read(annotation, given, path, problems, depth)
    if len(problems) == found_before:  # a check may rely on the previous ones, so the first problem ends them
        problem = next((problem for check in checks if (problem := check.problem(value))), "")
        problems += [f"{path}: {problem}"] if problem else []
    return value


def _float(given: object) -> object:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if is_number and math.isfinite(given) else _MISSING  # type: ignore[arg-type]  # a number


_SIMPLE: Final[dict[Any, Callable[[object], object]]] = {
    str: lambda given: given if isinstance(given, str) else _MISSING,
    bool: lambda given: given if isinstance(given, bool) else _MISSING,
    int: lambda given: given if isinstance(given, int) and not isinstance(given, bool) else _MISSING,
    float: _float,
    Path: lambda given: Path(given) if isinstance(given, str) and given and not is_uri(given) else _MISSING,
}
_NAMES: Final = {str: "a string", bool: "true or false", int: "a whole number", float: "a number", Path: "a local path"}


def _is_choice(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, StrEnum)


def _expected(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal or _is_choice(annotation):
        return "one of " + ", ".join(str(choice) for choice in arguments or annotation)
    if origin in (Annotated, types.UnionType, typing.Union):
        return _expected(arguments[0])
    if origin in (tuple, frozenset):
        return "a list of tables" if dataclasses.is_dataclass(arguments[0]) else "a list"
    return _NAMES.get(annotation, "a table")


def _unknown(key: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(key, known, n=1)
    return "unknown setting; " + (f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}")


def _shown(given: object) -> str:
    text = repr(given) if isinstance(given, str) else str(given)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
