"""Every problem of a table at once, each with its dotted path."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ConfigError
from runtime.settings import (
    MAX_DEPTH,
    AtMost,
    Between,
    HexBytes,
    ListenAddress,
    Matching,
    NotEmpty,
    Positive,
    check_settings,
    listen_option,
    parse_listen,
    placeholder_problem,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    depth_m: Annotated[float, Between(0, 100)]
    label: Annotated[str, Matching("[a-z]+", "a word")] = "deep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boiler:
    baudrate: Literal[9600, 19200]
    name: Annotated[str, NotEmpty()] = "boiler"
    retries: int = 3
    enabled: bool = True
    key_file: Path | None = None
    sync_hex: Annotated[str, HexBytes()] = ""
    probes: tuple[Probe, ...] = ()
    limits: dict[str, Probe] = field(default_factory=dict)
    first_s: float = 1.0
    last_s: float = 2.0

    def __post_init__(self) -> None:
        if self.first_s > self.last_s:
            raise ConfigError("first_s: it is after last_s", "last_s: it is before first_s")
        if self.retries > 100:
            raise ValueError("so many retries are of no use")


def problems_of(table: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check_settings(Boiler, table, "drivers.boiler")
    return list(caught.value.problems)


def test_a_good_table_becomes_a_frozen_value_with_its_defaults() -> None:
    table = {
        "baudrate": 9600,
        "key_file": "/etc/key",
        "probes": [{"depth_m": 1}],
        "limits": {"low": {"depth_m": 0.5, "label": "shallow"}},
    }
    boiler = check_settings(Boiler, table)
    assert boiler == Boiler(
        baudrate=9600,
        key_file=Path("/etc/key"),
        probes=(Probe(depth_m=1.0),),
        limits={"low": Probe(depth_m=0.5, label="shallow")},
    )
    assert isinstance(boiler.probes[0].depth_m, float)


def test_all_problems_come_at_once_with_their_paths() -> None:
    table: dict[str, object] = {
        "baudrate": 11520,
        "nam": "x",
        "retries": "many",
        "enabled": 1,
        "sync_hex": "xy",
        "probes": [{"depth_m": 1}, {"depth_m": 200, "label": "Deep!"}],
        "limits": {"low": {}},
        "first_s": True,
    }
    assert problems_of(table) == [
        "drivers.boiler.nam: unknown setting; did you mean name?",
        "drivers.boiler.baudrate: 11520 is not one of 9600, 19200",
        "drivers.boiler.retries: 'many' is not a whole number",
        "drivers.boiler.enabled: 1 is not true or false",
        "drivers.boiler.sync_hex: 'xy' is not bytes in hex, such as \"0d0a\"",
        "drivers.boiler.probes[1].depth_m: 200.0 is not between 0 and 100",
        "drivers.boiler.probes[1].label: 'Deep!' does not look like a word",
        "drivers.boiler.limits.low.depth_m: missing; expected a number",
        "drivers.boiler.first_s: True is not a number",
    ]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({}, "drivers.boiler.baudrate: missing; expected one of 9600, 19200"),
        ({"baudrate": 9600.0}, "drivers.boiler.baudrate: 9600.0 is not one of 9600, 19200"),
        ({"baudrate": 9600, "name": ""}, "drivers.boiler.name: must not be empty"),
        ({"baudrate": 9600, "probes": {"depth_m": 1}}, "drivers.boiler.probes: {'depth_m': 1} is not a list of tables"),
        ({"baudrate": 9600, "limits": [1]}, "drivers.boiler.limits: [1] is not a table"),
        ({"baudrate": 9600, "retries": 1000}, "drivers.boiler: so many retries are of no use"),
        ({"baudrate": 9600, "first_s": float("nan")}, "drivers.boiler.first_s: nan is not a number"),
        ({"baudrate": 9600, "key_file": 3}, "drivers.boiler.key_file: 3 is not a local path"),
        ({"baudrate": 9600, "key_file": "s3a://b/k"}, "drivers.boiler.key_file: 's3a://b/k' is not a local path"),
    ],
)
def test_one_problem(table: dict[str, object], problem: str) -> None:
    assert problems_of(table) == [problem]


def test_contradictions_between_fields_are_reported_per_field() -> None:
    assert problems_of({"baudrate": 9600, "first_s": 3}) == [
        "drivers.boiler.first_s: it is after last_s",
        "drivers.boiler.last_s: it is before first_s",
    ]


def test_the_text_of_several_problems_lists_them() -> None:
    assert str(ConfigError("a: x", "b: y")) == "2 problems\n  a: x\n  b: y"
    assert str(ConfigError("a: x")) == "a: x"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("abc_é", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_é", max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*Boiler.__dataclass_fields__, "x"])


@given(st.dictionaries(names, plain, max_size=6))
def test_any_table_gives_a_value_or_a_config_error(table: dict[str, object]) -> None:
    try:
        boiler = check_settings(Boiler, table)
    except ConfigError:
        return
    assert boiler.baudrate in (9600, 19200)


@pytest.mark.parametrize(
    "text", ["", "7070", ":7070", "host:", "host:x", "host:65536", "host:-1", "host:\u0661", "host:" + "1" * 5000]
)
def test_what_is_no_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_listen(text)


def test_an_address_to_listen_on_is_a_host_and_a_port() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:65535") == ("::1", 65_535)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    colour: Colour = Colour.RED
    names: frozenset[str] = frozenset()
    count: Annotated[int, Positive()] = 1


def test_choices_and_sets_are_read_as_what_they_are() -> None:
    assert check_settings(Painted, {"colour": "blue", "names": ["a", "b", "a"]}) == Painted(
        colour=Colour.BLUE, names=frozenset({"a", "b"})
    )
    with pytest.raises(ConfigError) as refused:
        check_settings(Painted, {"colour": "green", "names": "a", "count": 0})
    assert refused.value.problems == (
        "colour: 'green' is not one of red, blue",
        "names: 'a' is not a list",
        "count: 0 is not positive",
    )


@dataclass(frozen=True)
class Server:
    listen: Annotated[str, ListenAddress()] = "127.0.0.1:8440"
    name: Annotated[str, AtMost(8)] = "server"
    end: Annotated[str, HexBytes()] = "0d0a"
    below: "Server | None" = None


def test_addresses_long_names_and_bytes_are_checked() -> None:
    good = {"listen": "[::]:80", "name": "12345678", "end": "ff"}
    assert check_settings(Server, good) == Server(**good)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as raised:
        check_settings(Server, {"listen": "80", "name": "123456789", "end": "f"})
    assert list(raised.value.problems) == [
        "listen: '80' is not HOST:PORT, such as 127.0.0.1:8440 or [::]:8440",
        "name: '123456789' is longer than 8 characters",
        "end: 'f' is not bytes in hex, such as \"0d0a\"",
    ]


def test_tables_within_tables_have_a_limit() -> None:
    table: dict[str, object] = {}
    for _ in range(MAX_DEPTH + 1):
        table = {"below": table}
    with pytest.raises(ConfigError, match=f"tables go deeper than {MAX_DEPTH}"):
        check_settings(Server, table)


def test_an_option_that_is_no_address_is_named() -> None:
    assert listen_option("--listen", "localhost:80") == ("localhost", 80)
    with pytest.raises(ConfigError, match="--listen: '80' is not HOST:PORT"):
        listen_option("--listen", "80")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{sensor}/{quantity}", ""),
        ("no placeholder", ""),
        ("{sensor", "a placeholder is wrong: expected '}' before end of string"),
        ("{sensor:>99999999999}", "a placeholder is wrong: only a name is allowed in braces"),
        ("{sensor!r}", "a placeholder is wrong: only a name is allowed in braces"),
        ("{}", "a placeholder is wrong: only a name is allowed in braces"),
        ("{device}", "a placeholder is wrong; known are {sensor}, {quantity}"),
    ],
)
def test_only_known_names_are_placeholders(template: str, problem: str) -> None:
    assert placeholder_problem(template, ["sensor", "quantity"]) == problem
