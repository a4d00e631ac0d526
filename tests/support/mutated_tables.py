"""Configurations as people spoil them: a table in which some key, type, value, text or nesting is wrong.

Deterministic: the same `Random` gives the same tables. `to_toml` writes any table that TOML can hold.
"""

import copy
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["ODD_VALUES", "documented_tables", "mutate", "tables_in", "to_toml"]

ROOT = Path(__file__).parents[2]
TOML_BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ODD_TEXTS = [
    "", " ", "\0", "\n", "a\nb", "x" * 5000, "größe", "😀", "\x7f", "٣", "../..", "/", "//", "/dev/null", ".", "~",
    "-", "--", "{", "}", "{}", "{0}", "{x}", "{address}", "{address.x}", "{address[0]}", "{address!r}",
    "{address:>999999999}", "%s", "*", "[", "[a-", "(", "(?P<t>", "(a+)+$", "\\", "\\x", "^", "$", "+", "#", "a/#/b",
    "+/+", "tcp://10.0.0.5", "tcp://h:", "tcp://h:abc", "tcp://h:0", "tcp://h:99999", "tcp://:502", "tcp://", "tcp:",
    "tcp://[::1:5", "tcp://a/b:5", "usb:", "usb:0403", "usb:0403:6001:", "http://", "http://[", "http://[::1",
    "http://h:", "http://h:abc", "http://h:99999", "http://a:b@h", "https://h?q#f", "ws://h:-1", "wss://..",
    "ftp://h", "h:abc", "[::]:1", ":80", "localhost", "0x", "0x" + "g" * 40, "0x" + "a" * 40, "0x" + "A" * 41,
    "1e309", "nan", "null", "true", "0d0a", "0d0", "zz", "<", "<Q", "<999999999s", "1999999999x", "Cel", "°C", "5",
    "-1",
]  # fmt: skip
ODD_NUMBERS = [
    0,
    -1,
    1,
    2,
    7,
    255,
    256,
    65_535,
    65_536,
    10**9,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    0.0,
    -0.0,
    1e-9,
    0.5,
    1e308,
    -1e308,
]
ODD_VALUES: list[Any] = [
    *ODD_TEXTS, *ODD_NUMBERS, math.inf, -math.inf, math.nan, True, False, [], {}, [[]], [{}], {"a": 1},
    {"a": {"b": []}}, [1, "a", True], ["x"], [0], date(2026, 1, 1), time(1, 2), datetime(2026, 1, 1, tzinfo=UTC),
    [["x"] * 3] * 3,
]  # fmt: skip
ODD_KEYS = ["", " ", "zzz", "a.b", "a b", "a\nb", "é", "x" * 300, "driver", "kind", "name", "__class__", "self", "path"]


def documented_tables() -> list[str]:
    """The TOML of every driver's sample and of every document, each block by itself."""
    samples = [path.read_text() for path in sorted(ROOT.glob("drivers/*/sample.toml"))]
    documents = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", *sorted(ROOT.glob("drivers/*/README.md"))]
    return samples + [block for document in documents for block in TOML_BLOCK.findall(document.read_text())]


def mutate(table: dict[str, Any], random: Random, changes: int) -> dict[str, Any]:
    """A copy with that many changes, anywhere."""
    changed = copy.deepcopy(table)
    for _ in range(changes):
        places = list(_places(changed))
        if places:
            holder, key = random.choice(places)
            random.choice(_CHANGES)(holder, key, random)
    return changed


def tables_in(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table below, with its dotted path."""
    if isinstance(value, dict):
        yield path, value
        for key, each in value.items():
            yield from tables_in(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from tables_in(each, f"{path}[{index}]")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def _replace(holder: Any, key: Any, random: Random) -> None:
    holder[key] = copy.deepcopy(random.choice(ODD_VALUES))


def _remove(holder: Any, key: Any, _random: Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, random: Random) -> None:
    if isinstance(holder, dict):
        holder[random.choice([*ODD_KEYS, key + "x", key[:-1], key.upper()])] = holder.pop(key)


def _add(holder: Any, _key: Any, random: Random) -> None:
    value = copy.deepcopy(random.choice(ODD_VALUES))
    if isinstance(holder, dict):
        holder[random.choice(ODD_KEYS)] = value
    else:
        holder.append(value)


def _wrap(holder: Any, key: Any, random: Random) -> None:
    for _ in range(random.choice([1, 2, 30])):
        holder[key] = random.choice([[holder[key]], {"x": holder[key]}])


def _repeat(holder: Any, key: Any, random: Random) -> None:
    if isinstance(holder, list):
        holder.extend(copy.deepcopy([holder[key]]) * random.choice([1, 3, 100]))


def _scratch(holder: Any, key: Any, random: Random) -> None:
    """Change a text a little, or a number."""
    value = holder[key]
    if isinstance(value, str):
        at = random.randrange(len(value) + 1)
        holder[key] = random.choice(
            [value[:at], value[at:], value[:at] + random.choice(ODD_TEXTS[:60]) + value[at:], value * 2, value.upper()]
        )
    elif isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = random.choice([-value, value * 1000, value + 0.5, str(value), value > 0])


_CHANGES = [_replace, _replace, _remove, _rename, _add, _wrap, _repeat, _scratch, _scratch]


def to_toml(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case dict():
            return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case datetime() | date() | time():
            return value.isoformat()
    return repr(value)  # of a number
