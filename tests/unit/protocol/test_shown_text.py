import pytest

from protocol.shown_text import printable, printable_start, utc_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("boiler°", "boiler°"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("half \ud800 of one", "half \\ud800 of one"),
        ("a line\u2028more", "a line\\u2028more"),
        ("", ""),
    ],
)
def test_a_terminal_obeys_nothing_of_it(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_what_is_long_is_cut_and_says_how_long_it_is() -> None:
    assert printable_start("abc", 3) == "abc"
    assert printable_start("ab\nde", 3) == "ab\\n… (5 characters)"


def test_a_time_is_shown_in_utc_and_one_beyond_the_calendar_as_a_number() -> None:
    assert utc_text(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"
    assert utc_text(253_402_300_800_000) == "253402300800000 ms"
    assert utc_text(-(10**30)) == f"-{10**30} ms"
