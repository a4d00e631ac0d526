"""From fields to quantities."""

import re
import struct
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.mapping import (
    Quantity,
    fields_of_json,
    fields_of_match,
    fields_of_row,
    fields_of_struct,
    measure,
    reader_of,
)
from drivers.reading import MAX_NAME_CHARS, Reading
from drivers.rejects import Rejects

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=6)
QUANTITIES = st.builds(
    Quantity,
    field=st.sampled_from(["", "a", "b.c"]),
    unit=st.sampled_from(["", "Cel"]),
    kind=st.sampled_from(["number", "boolean", "text"]),
    scale=st.sampled_from([1.0, 0.1, 1e308]),
    offset=st.sampled_from([0.0, -40.0]),
    decimals=st.sampled_from([None, 0, 2]),
)


def test_a_number_is_scaled_shifted_and_rounded() -> None:
    quantity = Quantity(field="raw", unit="Cel", scale=0.1, offset=-40, decimals=1)
    assert measure({"raw": "615"}, {"temperature": quantity}) == ([("temperature", 21.5, "Cel")], [])


def test_what_is_absent_or_empty_is_left_out() -> None:
    quantities = {"a": Quantity(), "b": Quantity(), "c": Quantity()}
    assert measure({"a": 1, "b": "", "c": None}, quantities) == ([("a", 1, "")], [])


@pytest.mark.parametrize(("raw", "value"), [("ON", True), ("off", False), (1, True), (False, False), ("Open", True)])
def test_words_of_on_and_off_are_truths(raw: object, value: bool) -> None:
    assert measure({"x": raw}, {"x": Quantity(kind="boolean")}) == ([("x", value, "")], [])


@pytest.mark.parametrize("raw", ["abc", "nan", "inf", [], {"a": 1}, "1e999"])
def test_what_is_no_number_is_unreadable_and_costs_nothing_beside_it(raw: object) -> None:
    found, (unreadable,) = measure({"x": raw, "y": 1}, {"x": Quantity(), "y": Quantity()})
    assert found == [("y", 1, "")]
    assert unreadable.reason in ("x is not a number", "x is not a finite number")


@pytest.mark.parametrize(
    ("raw", "value"),
    [("19,4", 19.4), ("1.234,5", 1234.5), ("-1.234.567,89", -1234567.89), (",5", 0.5), ("19.4", 19.4), (19.4, 19.4)],
)
def test_a_decimal_comma_is_read_where_it_is_configured(raw: object, value: float) -> None:
    assert measure({"x": raw}, {"x": Quantity(decimal_comma=True)}) == ([("x", value, "")], [])


@pytest.mark.parametrize("raw", ["1,234,567", "1,234.5", "12.34,5", ",", "1.2345,6"])
def test_what_may_be_another_way_of_writing_is_not_guessed(raw: str) -> None:
    _, (unreadable,) = measure({"x": raw}, {"x": Quantity(decimal_comma=True)})
    assert unreadable.reason == "x is not a number"


def test_a_comma_is_no_part_of_a_number_otherwise() -> None:
    assert measure({"x": "19,4"}, {"x": Quantity()})[1][0].reason == "x is not a number"


def test_nothing_found_is_refused() -> None:
    with pytest.raises(ValueError, match="none of the quantities"):
        measure({"y": 1}, {"x": Quantity()})


@given(
    st.dictionaries(st.sampled_from("abcd"), LEAVES | st.dictionaries(st.sampled_from("abc"), LEAVES)),
    st.dictionaries(st.sampled_from(["a", "b", "x" * 129]), QUANTITIES, min_size=1),
)
def test_a_reader_gives_the_readings_of_what_is_measured(document: dict[str, Any], quantities: dict[str, Any]) -> None:
    rejects = Rejects()

    def measured(payload: bytes) -> list[Reading]:
        found, _ = measure(fields_of_json(payload), quantities)
        named = [each for each in found if len(each[0]) <= MAX_NAME_CHARS]
        return [Reading("boiler", name, value, unit, taken_at_ms=5, token=9) for name, value, unit in named]

    payload, read = orjson.dumps(document), reader_of("boiler", quantities, fields_of_json, rejects.note)
    try:
        expected = measured(payload)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - of two problems, either is reported
            read(payload, 5, 9)
    else:
        readings = read(payload, 5, 9)
        assert readings == expected
        assert [type(reading.value) for reading in readings] == [type(reading.value) for reading in expected]


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (Quantity(), 1.25),
        (Quantity(kind="text"), "1.25"),
        (Quantity(scale=2), 2.5),
        (Quantity(offset=1), 2.25),
        (Quantity(decimals=1), 1.2),
    ],
)
def test_a_reader_converts_a_number_as_its_quantity_says(quantity: Quantity, value: object) -> None:
    (reading,) = reader_of("boiler", {"t": quantity}, fields_of_json, Rejects().note)(b'{"t":1.25}', 5, None)
    assert reading.value == value


def test_a_number_as_it_stands_needs_no_conversion_but_is_still_finite() -> None:
    rejects = Rejects()
    read = reader_of("boiler", {"t": Quantity(unit="Cel")}, lambda payload: {"t": float(payload)}, rejects.note)
    assert read(b"21.5", 5, None) == [Reading("boiler", "t", 21.5, "Cel", taken_at_ms=5)]
    assert read(b"inf", 5, None) == []
    assert rejects.counts == {("boiler", "t is not a finite number"): 1}


def test_json_leaves_have_dotted_paths() -> None:
    assert fields_of_json(b'{"a":{"b":[1,{"c":"x"}]},"d":null}') == {"a.b.0": 1, "a.b.1.c": "x", "d": None}


@pytest.mark.parametrize("document", [b"", b"{", b"[" * 20 + b"]" * 20, b"[" + b"1," * 400 + b"1]", b"\xff"])
def test_json_that_is_broken_deep_or_large_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are orjson's
        fields_of_json(document)


def test_a_row_has_as_many_cells_as_columns() -> None:
    assert fields_of_row("1; 2;3", ";", ["a", "", "c"]) == {"a": "1", "c": "3"}
    assert fields_of_row(" 1   2\t3", " ", ["a", "b", "c"]) == {"a": "1", "b": "2", "c": "3"}
    with pytest.raises(ValueError, match="2 cells where 3"):
        fields_of_row("1,2", ",", ["a", "b", "c"])


def test_a_record_has_exactly_its_length() -> None:
    layout = struct.Struct("<2xhH")
    assert fields_of_struct(b"\xaa\x55\x66\x08\xf5\x03", layout, ["t", "p"]) == {"t": 2150, "p": 1013}
    with pytest.raises(ValueError, match="5 bytes where 6"):
        fields_of_struct(b"12345", layout, ["t", "p"])


def test_named_groups_are_found_anywhere_in_a_line() -> None:
    pattern = re.compile(r"T=(?P<t>[0-9.]+)( H=(?P<h>[0-9]+))?")
    assert fields_of_match("> T=21.5", pattern) == {"t": "21.5", "h": None}
    with pytest.raises(ValueError, match="does not match"):
        fields_of_match("hello", pattern)


@given(st.binary(max_size=200))
def test_any_bytes_as_json_give_fields_or_a_value_error(data: bytes) -> None:
    try:
        fields_of_json(data)
    except ValueError:
        return
