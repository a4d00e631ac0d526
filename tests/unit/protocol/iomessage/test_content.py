import json
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.iomessage import IoMessage
from protocol.iomessage.content import (
    MAX_PACK_BYTES,
    MAX_PACK_READINGS,
    carries_io_message,
    decode_binary_content,
    decode_content,
    encode_binary_content,
    encode_json_content,
    split_pack,
)


def _binary(size: int = 0) -> bytes:
    return IoMessage(
        id="a", timestamp=1, publisher="p", info_type="t", info_format="f", content_data=bytes(size)
    ).to_bytes()


@st.composite
def _messages(draw: st.DrawFn) -> IoMessage:
    return IoMessage(
        id=draw(st.text("abc", min_size=1, max_size=4)),
        timestamp=draw(st.integers(0, 2**44)),
        publisher="p",
        info_type="t",
        info_format="f",
        content_data=draw(st.binary(max_size=20)),
    )


@given(data=st.binary(max_size=100))
def test_one_binary_message_is_decoded_whatever_its_bytes(data: bytes) -> None:
    content = encode_binary_content([data])
    assert decode_binary_content(content) == [data]
    assert decode_binary_content(json.dumps(json.loads(content), indent=1)) == [data]
    assert carries_io_message(content)


@given(messages=st.lists(_messages(), min_size=1, max_size=5))
def test_what_is_encoded_is_decoded_in_every_form(messages: list[IoMessage]) -> None:
    binary = encode_binary_content([each.to_bytes() for each in messages])
    as_json = encode_json_content([each.to_json() for each in messages])
    for content in (binary, json.dumps(json.loads(binary), indent=1)):
        assert decode_content(content) == messages
    assert decode_content(as_json) == [IoMessage.from_json(each.to_json()) for each in messages]
    assert carries_io_message(binary)
    assert carries_io_message(as_json)
    assert decode_binary_content(binary) == [each.to_bytes() for each in messages]
    assert decode_binary_content(as_json) is None


def test_one_reading_has_the_form_without_a_pack() -> None:
    assert encode_binary_content([b"\x00"]) == '{"ioMessage":"AA=="}'
    assert encode_json_content(["{}"]) == "{}"


def test_a_pack_is_one_key_with_all_messages() -> None:
    assert encode_binary_content([b"\x00", b"\x01"]) == '{"ioMessages":"AAE="}'
    assert encode_json_content(["{}", "{}"]) == '{"ioMessages":[{},{}]}'


@pytest.mark.parametrize(
    "content", ["{}", "[]", "5", '"ioMessage"', '{"id":"x"}', '["ioMessage"]', '{"ioMessages":[]}']
)
def test_other_json_holds_no_binary_message(content: str) -> None:
    assert decode_binary_content(content) is None


@pytest.mark.parametrize("name", ["ioMessage", "ioMessages"])
@pytest.mark.parametrize("value", ["5", '"AA="', '"A A="', "{}", "true"])
def test_content_that_is_neither_json_nor_base64_is_corrupt(name: str, value: str) -> None:
    for content in ("", "{", "nonsense", f'{{"{name}":{value}}}'):
        with pytest.raises(Corrupt, match="neither JSON nor base64"):
            decode_binary_content(content)


@pytest.mark.parametrize(
    ("data", "error", "problem"),
    [
        (b"", Truncated, "in a pack: the header is 33 bytes long"),
        (_binary() + b"\x00", Truncated, "in a pack: the header is 33 bytes long"),
        (_binary()[:-1], Corrupt, "ends 1 bytes behind it"),
        (b"\x00\x05" + _binary()[2:], Unsupported, "in a pack: ioMessage version 5"),
        (_binary(MAX_PACK_BYTES), Corrupt, "the limit is 65536"),
        (_binary() * (MAX_PACK_READINGS + 1), Corrupt, "more than 1000 readings"),
        (_binary() * 10**6, Corrupt, "the limit is 65536"),
    ],
)
def test_a_pack_that_is_not_whole_messages_within_the_limits_is_refused(
    data: bytes, error: type[WireError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        split_pack(data)
    with pytest.raises(error, match=problem):
        decode_content(encode_binary_content([data, b""]))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"ioMessages":[]}', "a pack of 0 readings"),
        (encode_json_content(["{}"] * (MAX_PACK_READINGS + 1)), "a pack of 1001 readings"),
        ('{"ioMessages":[[]]}', "reading 0 of the pack: an ioMessage in JSON is an object, not list"),
        ('{"ioMessages":[{},{"ioMessages":[{}]},5]}', "reading 2 of the pack: .* not int"),
        ('{"ioMessages":' + "[" * 900 + "]" * 900 + "}", "not list"),
        ('{"ioMessages":' + "[" * 10**5 + "]" * 10**5 + "}", "neither JSON"),
        ('{"ioMessage":"AA==","ioMessages":"AA=="}', "both ioMessage and ioMessages"),
    ],
)
def test_a_hostile_pack_in_json_is_refused(content: str, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        decode_content(content)


@given(name=st.sampled_from(["ioMessage", "ioMessages"]), inside=st.text(max_size=20))
def test_the_fast_path_decodes_as_a_json_reader_does(name: str, inside: str) -> None:
    content = f'{{"{name}":"{inside}"}}'
    try:
        decoded = decode_binary_content(content)
    except WireError:
        return
    parsed = orjson.loads(content)
    assert decoded == decode_binary_content(orjson.dumps(parsed).decode()) or name not in parsed


@given(content=st.one_of(st.text(), st.binary().map(lambda data: encode_binary_content([data, b""]))))
def test_any_content_is_decoded_or_refused(content: str) -> None:
    with suppress(WireError):
        assert decode_content(content)
