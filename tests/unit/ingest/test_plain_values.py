import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from ingest.plain_values import as_json
from ingest.query import Rows
from protocol.shown_text import printable

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1.5"), 1.5),
        (math.nan, None),
        (-math.inf, None),
        (Decimal("NaN"), None),
        (b"\x00\xff", "AP8="),
        (NOON, "2026-11-16T12:00:00"),
        (NOON.astimezone(timezone(timedelta(hours=-5))), "2026-11-16T12:00:00"),
        (date(2026, 11, 16), "2026-11-16"),
        (timedelta(days=3), 259_200.0),
        ({"q": [b"", math.inf]}, {"q": ["", None]}),
        ([("a", 1)], [["a", 1]]),
        (2**70, 2**70),
    ],
)
def test_every_value_of_a_row_has_a_word_in_json(value: Any, expected: Any) -> None:
    assert json.loads(as_json(value), parse_constant=pytest.fail) == expected
    (line,) = Rows(["x"], [[value]]).as_json_lines()
    assert json.loads(line, parse_constant=pytest.fail) == {"x": expected}


def test_a_name_that_a_device_chose_says_nothing_to_the_terminal() -> None:
    assert printable("boiler°") == "boiler°"
    (_, line) = Rows(["sensor"], [["a\x1b[2J\nb"]]).as_table()
    assert line == "a\\x1b[2J\\nb"


def test_a_number_that_is_none_is_shown_in_a_table() -> None:
    assert Rows(["x", "y"], [[math.nan, None]]).as_table()[1] == "nan"
