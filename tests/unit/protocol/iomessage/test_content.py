import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import Corrupt
from protocol.iomessage.content import carries_io_message, decode_binary_content, encode_binary_content


@given(data=st.binary(max_size=100))
def test_what_is_encoded_is_decoded(data: bytes) -> None:
    content = encode_binary_content(data)
    assert decode_binary_content(content) == data
    assert decode_binary_content(json.dumps(json.loads(content), indent=1)) == data
    assert carries_io_message(content)


@pytest.mark.parametrize("content", ["{}", "[]", "5", '"ioMessage"', '{"id":"x"}', '["ioMessage"]'])
def test_other_json_holds_no_binary_message(content: str) -> None:
    assert decode_binary_content(content) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "nonsense", '{"ioMessage":5}', '{"ioMessage":"AA="}', '{"ioMessage":"A A="}', '{"ioMessage":[]}'],
)
def test_content_that_is_neither_is_corrupt(content: str) -> None:
    with pytest.raises(Corrupt, match="neither JSON nor base64"):
        decode_binary_content(content)


@given(inside=st.text(max_size=20))
def test_the_fast_path_decodes_as_a_json_reader_does(inside: str) -> None:
    content = '{"ioMessage":"' + inside + '"}'
    try:
        decoded = decode_binary_content(content)
    except Corrupt:
        return
    parsed = orjson.loads(content)
    assert decoded == decode_binary_content(orjson.dumps(parsed).decode()) or "ioMessage" not in parsed
