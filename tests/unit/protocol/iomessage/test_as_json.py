import json

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.iomessage import IoMessage
from protocol.iomessage.fields import INTEGER_LIMITS
from tests.support.iomessage_samples import EVERY_FIELD, message

DOCUMENT_KEYS = [
    "id",
    "tag",
    "groupid",
    "sequencenumber",
    "sequencetotal",
    "priority",
    "timestamp",
    "publisher",
    "authid",
    "authgroup",
    "version",
    "chainposition",
    "hash",
    "previoushash",
    "nonce",
    "difficultytarget",
    "infotype",
    "infoformat",
    "contextdata",
    "contentdata",
]


def test_every_key_is_written_in_lower_case_and_never_null() -> None:
    written = json.loads(message(**EVERY_FIELD).to_json())
    assert list(written) == DOCUMENT_KEYS
    assert json.loads(message().to_json())["tag"] == ""
    assert json.loads(message().to_json())["contextdata"] == ""
    assert '"difficultytarget":0,' in message(difficulty_target=0).to_json()


@pytest.mark.parametrize("name", INTEGER_LIMITS)
@pytest.mark.parametrize("number", [0, 5])
def test_an_absent_integer_is_left_out_and_0_is_not(name: str, number: int) -> None:
    key = name.replace("_", "")
    assert json.loads(message(**{name: number}).to_json())[key] == number
    assert getattr(IoMessage.from_json(message(**{name: number}).to_json()), name) == number
    if name != "timestamp":
        assert key not in json.loads(message().to_json())
        assert getattr(IoMessage.from_json(message().to_json()), name) is None


def test_a_stream_without_a_known_end_differs_from_one_of_no_messages() -> None:
    endless = message(group_id="g", sequence_number=3)
    assert IoMessage.from_json(endless.to_json()).sequence_total is None
    assert IoMessage.from_json(endless.replace(sequence_total=0).to_json()).sequence_total == 0


def test_every_field_comes_back() -> None:
    full = message(**EVERY_FIELD)
    assert IoMessage.from_json(full.to_json()) == full
    assert IoMessage.from_json(full.to_json().encode()) == full


@pytest.mark.parametrize("number", ["5", "5.0", '"5"', '"5.00"', "5e0"])
def test_whole_numbers_are_read_in_any_notation(number: str) -> None:
    assert IoMessage.from_json(f'{{"priority":{number}}}').priority == 5


@pytest.mark.parametrize(
    "number",
    ["-1", "1.5", "true", '"-1"', '"1e3"', '"0x10"', "[]", "{}", "18446744073709551616", "1e30", '"' + "9" * 30 + '"'],
)
def test_what_is_no_whole_number_is_refused_by_name(number: str) -> None:
    with pytest.raises(Corrupt, match="priority must be"):
        IoMessage.from_json(f'{{"priority":{number}}}')


def test_the_largest_integer_is_exact() -> None:
    assert IoMessage.from_json('{"priority":18446744073709551615}').priority == 2**64 - 1


@pytest.mark.parametrize("version", ["null", "0", "4", '"4"', "4.0"])
def test_the_versions_that_writers_of_version_4_claim_are_accepted(version: str) -> None:
    assert IoMessage.from_json(f'{{"version":{version}}}').version == 4


@pytest.mark.parametrize("version", ["1", "5", '"5"'])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(Unsupported, match="is not known"):
        IoMessage.from_json(f'{{"version":{version}}}')


@pytest.mark.parametrize("base64", ["/+8=", "/+8", "_-8=", "_-8", " /+\r\n8=\t"])
def test_every_dialect_of_base64_is_read(base64: str) -> None:
    assert IoMessage.from_json(json.dumps({"contentdata": base64})).content_data == b"\xff\xef"


@pytest.mark.parametrize("base64", ["/", "/+8=/+8=", "ä", "a b!", "====a"])
def test_what_is_not_base64_is_refused_by_name(base64: str) -> None:
    with pytest.raises(Corrupt, match="content_data is not base64"):
        IoMessage.from_json(json.dumps({"contentdata": base64}))


@pytest.mark.parametrize("text", ["", "{", '{"id":"x"', '{"id":"x",'])
def test_a_text_that_ends_early_is_truncated(text: str) -> None:
    with pytest.raises(Truncated):
        IoMessage.from_json(text)


@pytest.mark.parametrize(
    "text",
    ["[]", "4", "null", "nonsense", b"\xff{}", '{"id":"\\ud800"}', "[" * 100_000, '{"tag":7}', '{"contentdata":1}'],
)
def test_what_is_no_message_is_a_wire_error(text: str | bytes) -> None:
    with pytest.raises(WireError):
        IoMessage.from_json(text)


def test_an_error_says_where_in_bytes() -> None:
    with pytest.raises(Corrupt) as caught:
        IoMessage.from_json('{"tag":"é",x')
    assert caught.value.offset == len('{"tag":"é",'.encode())


def test_an_over_long_text_is_refused() -> None:
    with pytest.raises(Corrupt, match="id is 256 bytes long"):
        IoMessage.from_json(json.dumps({"id": "x" * 256}))
