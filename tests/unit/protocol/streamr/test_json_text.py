"""JSON as it travels: what is refused, where, and how it is written."""

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.streamr.json_text import MAX_TEXT_LENGTH, decode_json, encode_json


@pytest.mark.parametrize(
    ("text", "kind", "offset"),
    [
        ("", Truncated, 0),
        (" \n", Truncated, 0),
        ('["ä', Truncated, 4),
        (b'["\xc3\xa4"', Truncated, 5),
        (b'["\xc3', Truncated, 2),
        ("12e", Truncated, 3),
        ('["ä";', Corrupt, 5),
        (b'["\xff"]', Corrupt, 2),
        ('["\ud800"]', Corrupt, None),
        ('["\\ud800"]', Corrupt, 2),
        ("[1]]", Corrupt, 3),
        ("NaN", Corrupt, 0),
        ("[" * 2000 + "]" * 2000, Corrupt, 1025),
        (b'"' + b"a" * MAX_TEXT_LENGTH + b'"', Corrupt, None),
    ],
)
def test_what_is_not_json_is_refused_with_its_place_in_bytes(
    text: str | bytes, kind: type[WireError], offset: int | None
) -> None:
    with pytest.raises(WireError) as caught:
        decode_json(text)
    assert (type(caught.value), caught.value.offset) == (kind, offset)


def test_text_is_written_as_javascript_writes_it() -> None:
    assert encode_json(["ä\u2028/\x7f", "\b\t\n\f\r\x1f", 2**53 - 1, None, True, {"b": 1, "a": 2}]) == (
        '["ä\u2028/\x7f","\\b\\t\\n\\f\\r\\u001f",9007199254740991,null,true,{"b":1,"a":2}]'
    )


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**30, "\ud800", object()])
def test_what_readers_would_get_wrong_is_not_written(value: object) -> None:
    with pytest.raises(Unsupported, match="cannot be written as JSON"):
        encode_json([value])
