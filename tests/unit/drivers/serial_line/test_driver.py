"""Lines, rows, documents and binary records become readings; noise becomes damage."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import ConfigError
from drivers.framing import Damaged
from drivers.reading import Reading
from drivers.serial_line.driver import SerialLineDecoder, SerialLineSettings, build
from runtime.settings import check_settings

T = {"temperature": {"unit": "Cel"}}


def decoder(**table: Any) -> SerialLineDecoder:
    return SerialLineDecoder("weather", check_settings(SerialLineSettings, {"port": "/dev/x", **table}))


@pytest.mark.parametrize(
    ("table", "data"),
    [
        ({"format": "regex", "pattern": "T=(?P<temperature>[0-9.]+)", "quantities": T}, b"ok T=21.5 \r\n"),
        ({"format": "json", "quantities": {"temperature": {"unit": "Cel", "field": "a.t"}}}, b'{"a":{"t":21.5}}\n'),
        ({"format": "csv", "columns": ["", "temperature"], "quantities": T}, b"7, 21.5\n"),
        ({"format": "csv", "separator": " ", "columns": ["", "temperature"], "quantities": T}, b"7   21.5\n"),
        (
            {
                "format": "struct",
                "layout": ">2xh",
                "columns": ["temperature"],
                "frame_bytes": 4,
                "sync_hex": "aa55",
                "quantities": {"temperature": {"unit": "Cel", "scale": 0.1}},
            },
            b"\xaa\x55\x00\xd7",
        ),
    ],
)
def test_each_format_gives_the_same_reading(table: dict[str, Any], data: bytes) -> None:
    assert decoder(**table).feed(data, 1000) == [Reading("weather", "temperature", 21.5, "Cel", taken_at_ms=1000)]


def test_raw_frames_are_untouched() -> None:
    raw = decoder(format="raw", quantity="telegram", mime_type="application/x-sml", delimiter_hex="7e")
    (reading,) = raw.feed(b"\x00\x01\r\n\x7e", 5)
    assert reading == Reading("weather", "telegram", b"\x00\x01\r\n", taken_at_ms=5, mime_type="application/x-sml")


def test_a_line_that_means_nothing_is_damage_that_shows_it() -> None:
    (event,) = decoder(format="csv", columns=["temperature"], quantities=T).feed(b"\xff\xfe\x00boot v1.2\n", 0)
    assert isinstance(event, Damaged)
    assert "boot" in event.problem


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"format": "regex", "quantities": T, "pattern": "("}, "d.pattern: "),
        ({"format": "regex", "quantities": T, "pattern": "[0-9]+"}, "d.pattern: it has no named group"),
        ({"format": "csv", "quantities": T}, "d.columns: missing"),
        ({"format": "struct", "quantities": T, "layout": "<hh", "columns": ["a"]}, "d.layout: it has 2 members"),
        ({"format": "struct", "quantities": T, "layout": "?z", "columns": ["a"]}, "d.layout: "),
        ({"format": "struct", "quantities": T, "layout": "9999999x", "columns": ["a"]}, "d.layout: "),
        (
            {"format": "struct", "quantities": T, "layout": "<h", "columns": ["a"], "frame_bytes": 3},
            "d.layout: it has 2 bytes and frame_bytes is 3",
        ),
        ({"format": "raw", "frame_bytes": 1, "sync_hex": "aa55"}, "d.sync_hex: it is longer"),
        ({"format": "json"}, "d.quantities: missing"),
        ({"format": "raw", "quantity": "x" * 129}, "d.quantity: 'xxxx"),
        ({"format": "raw", "mime_type": ""}, "d.mime_type: must not be empty"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("d", {"port": "/dev/x", **table}, "d")
    assert str(caught.value).startswith(problem)


@given(st.binary(max_size=300))
def test_any_bytes_give_readings_or_damage(data: bytes) -> None:
    for table in ({"format": "json"}, {"format": "csv", "columns": ["temperature", ""]}):
        for event in decoder(**table, quantities=T).feed(data + b"\n", 0):
            assert isinstance(event, Reading | Damaged)
