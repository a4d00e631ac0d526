"""Reading and writing stream messages, judged by what real releases wrote."""

import json
from typing import Any

import orjson
import pytest

from protocol.errors import Corrupt, Truncated, WireError
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import (
    EncryptionType,
    MessageType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.stream_message.codec import _read_complete, read_by_table
from protocol.streamr.stream_message.parts import STREAM_VERSIONS
from tests.support.expected_fields import assert_is_stream_message
from tests.support.streamr_vectors import load_vectors

VECTORS = load_vectors("messages_stream")
ID = '["s",0,1000,2,"p","c"]'


def test_every_vector_is_here() -> None:
    assert len(VECTORS) == 202
    assert {vector["version"] for vector in VECTORS} == {28, 29, 30, 31, 32}


@pytest.mark.parametrize("vector", VECTORS)
def test_a_real_message_is_read_to_its_fields_and_written_byte_for_byte(vector: dict[str, Any]) -> None:
    message = parse_stream_message(vector["serialized"])
    assert message.version == vector["version"]
    assert_is_stream_message(message, vector["fields"])
    if not isinstance(json.loads(vector["serialized"])[-1], dict):  # content as an object is read, never written
        assert message.serialize() == vector["serialized"]
    assert parse_stream_message(message.serialize().encode()) == message


COMPLETE = json.loads('[32,["s",0,1000,2,"p","c"],[999,0],27,0,2,"key","{}","[\\"k\\",\\"ff\\"]",2,"0xab"]')
REPLACEMENTS = [
    None, True, False, 0, 1, 2, 3, -1, 1.0, 0.5, 27, 32, 2**53, 10**30, "", "x", "27", "AES",
    [], [1], [1, 0], [1, 0, 0], {}, {"a": 1},
]  # fmt: skip


def altered_messages() -> list[list[Any]]:
    """The complete message with every element, outer and inner, replaced by everything it should not be."""
    altered = []
    for index in range(len(COMPLETE)):
        altered += [[*COMPLETE[:index], other, *COMPLETE[index + 1 :]] for other in REPLACEMENTS]
    for outer in (1, 2):
        for index in range(len(COMPLETE[outer])):
            for other in REPLACEMENTS:
                inner = [*COMPLETE[outer][:index], other, *COMPLETE[outer][index + 1 :]]
                altered.append([*COMPLETE[:outer], inner, *COMPLETE[outer + 1 :]])
    return altered


def test_the_short_way_and_the_tables_never_disagree() -> None:
    taken = 0
    for elements in [
        COMPLETE,
        *altered_messages(),
        *(orjson.loads(vector["serialized"]) for vector in VECTORS),
    ]:
        try:
            message = _read_complete(elements)
        except (KeyError, TypeError, ValueError):
            continue
        taken += 1
        assert read_by_table(elements, draft=False, versions=STREAM_VERSIONS) == message
    assert taken > 50


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[32,["s",0,"soon",2,"p","c"],null,27,0,0,null,"{}",null,0,null]', "[1][2] timestamp: must be"),
        (f'[32,{ID},[999],27,0,0,null,"{{}}",null,0,null]', "[2][1] sequence_number: is missing"),
        (f'[32,{ID},[1000,2],27,0,0,null,"{{}}",null,0,null]', "[2] prev_msg_ref: (1000, 2) is not older"),
        (f'[32,{ID},null,27,0,0,null,"{{}}","[",0,null]', "[8] new_group_key: is not JSON"),
        (f'[31,{ID},null,27,true,"{{}}",0,null]', "[4] encryption_type: must be one of"),
        ('[28,"s",0,1,0,5,4,27]', "[8] content: is missing"),
        ('[28,"s",0,1,0,5,4,27,"{"]', "[8] content: is not JSON"),
        ('[28,"s",0,1,0,5,4,27,5]', "[8] content: must be a string, an array or an object"),
        ('[28,"s",0,1,0,"5",4,27,"{}"]', "[5] offset: must be"),
        ('[29,"s",0,1,0,5,4,27,"{}",0,7,null]', "[10] publisher_id: must be"),
        ('{"version":32}', "stream_message: must be an array, not an object"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_stream_message(text)
    assert str(caught.value).startswith(problem)


def test_text_that_ends_too_early_is_truncated_and_other_invalid_text_is_corrupt() -> None:
    whole = f'[32,{ID},null,27,0,0,null,"{{}}",null,0,null]'
    for length in range(len(whole)):
        with pytest.raises(Truncated):
            parse_stream_message(whole[:length])
    with pytest.raises(Corrupt, match=r"not JSON.*at byte 3"):
        parse_stream_message("[32;")


NESTED = "[" * 500 + "]" * 500
HOSTILE = {
    "nested deeper than the reader goes": "[" * 100_000,
    "content nested deeper than the writer goes": f"[32,{ID},null,27,0,0,null,{NESTED},null,0,null]",
    "a new group key nested deep": f'[32,{ID},null,27,0,0,null,"{{}}","{NESTED}",0,null]',
    "a number without end": f'[32,["s",0,{"9" * 100_000},0,"p","c"],null,27,0,0,null,"{{}}",null,0,null]',
    "a number beyond a double": '[32,["s",0,1e999,0,"p","c"],null,27,0,0,null,"{}",null,0,null]',
    "half a surrogate pair": f'[32,{ID},null,27,0,0,null,"\\ud800",null,0,null]',
    "half a surrogate pair in Python's own string": '["\ud800"]',
    "a megabyte for a version": f'["{"3" * 1_000_000}"]',
    "a megabyte for a type": f'[32,{ID},null,"{"M" * 1_000_000}",0,0,null,"{{}}",null,0,null]',
    "an array for a type": f'[32,{ID},null,[[]],0,0,null,"{{}}",null,0,null]',
    "a hundred thousand elements": f"[32,{'0,' * 100_000}0]",
    "bytes that are no text": b'[32,"\xff"]',
    "a byte order mark": "\ufeff[]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_gives_a_short_wire_error(text: str | bytes) -> None:
    with pytest.raises(WireError) as caught:
        parse_stream_message(text)
    assert len(str(caught.value)) < 300


def test_a_megabyte_of_content_is_welcome() -> None:
    content = orjson.dumps({"image": "A" * 1_000_000}).decode()
    text = orjson.dumps([32, ["s", 0, 1000, 2, "p", "c"], None, 27, 0, 0, None, content, None, 0, None])
    assert parse_stream_message(text).content == content


def test_content_is_kept_verbatim_whatever_its_numbers_and_blanks_look_like() -> None:
    content = '{ "a" : 1.0, "b": 1e21, "c": -0, "d": "\\u00e4\u2028" }'
    text = orjson.dumps([32, ["s", 0, 1000, 2, "p", "c"], None, 27, 0, 0, None, content, None, 0, None]).decode()
    message = parse_stream_message(text)
    assert message.content == content
    assert message.serialize() == text


DRAFT_10 = f'[32,{ID},[999,0],27,0,2,"key","{{}}",2,"0xab"]'
DRAFT_9 = f'[32,{ID},[999,0],27,0,0,"{{\\"content\\":42}}",2,"0xab"]'
DRAFT_ROTATE = f'[32,{ID},null,32,0,2,"key","00ff",2,"0xab"]'


@pytest.mark.parametrize("text", [DRAFT_10, DRAFT_9, DRAFT_ROTATE])
def test_the_draft_of_32_is_refused_unless_requested(text: str) -> None:
    with pytest.raises(WireError):
        parse_stream_message(text)
    assert parse_stream_message(text, draft=True).draft


def test_the_draft_of_32_is_read_and_written_on_demand() -> None:
    message = parse_stream_message(DRAFT_10, draft=True)
    assert (message.group_key_id, message.encryption_type, message.signature) == ("key", 2, "0xab")
    assert message.prev_msg_ref == MessageRef(999, 0)
    assert message.serialize() == DRAFT_10
    assert message.serialize(version=32) == f'[32,{ID},[999,0],27,0,2,"key","{{}}",null,2,"0xab"]'
    assert parse_stream_message(message.serialize(version=32)).serialize(draft=True) == DRAFT_10


def test_the_nine_elements_of_the_drafts_examples_are_completed_to_ten() -> None:
    message = parse_stream_message(DRAFT_9, draft=True)
    assert (message.content, message.group_key_id) == ('{"content":42}', None)
    assert message.serialize() == f'[32,{ID},[999,0],27,0,0,null,"{{\\"content\\":42}}",2,"0xab"]'


def test_the_draft_knows_rotation_as_a_message_and_contents_that_are_arrays() -> None:
    assert parse_stream_message(DRAFT_ROTATE, draft=True).message_type is MessageType.GROUP_KEY_ROTATE
    reset = parse_stream_message(f'[32,{ID},null,30,0,0,["keyId","123abc"],2,"0xab"]', draft=True)
    assert (reset.message_type, reset.content) == (MessageType.GROUP_KEY_RESET, '["keyId","123abc"]')


def test_a_complete_message_of_32_reads_the_same_in_draft_mode() -> None:
    text = f'[32,{ID},null,27,0,0,null,"{{}}",null,0,null]'
    assert parse_stream_message(text, draft=True) == parse_stream_message(text)


def test_a_new_group_key_as_an_array_is_read_in_draft_mode_only() -> None:
    text = f'[32,{ID},null,27,0,2,"key","00",["key-2","ff"],2,"0xab"]'
    with pytest.raises(Corrupt, match=r"^\[8\] new_group_key: must be a string"):
        parse_stream_message(text)
    key = parse_stream_message(text, draft=True).new_group_key
    assert key is not None
    assert key.serialized == '["key-2","ff"]'


def test_codes_by_name_and_whole_floats_are_read_and_written_as_numbers() -> None:
    text = '["32",["s",0.0,1e3,2,"p","c"],0,"MESSAGE","JSON","AES",null,"00","","ETH","0xab"]'
    expected = '[32,["s",0,1000,2,"p","c"],null,27,0,2,null,"00",null,2,"0xab"]'
    assert parse_stream_message(text).serialize() == expected


def test_encryption_type_3_exists_in_version_31_alone() -> None:
    message = parse_stream_message(f'[31,{ID},null,27,3,"00ff",2,"0xab"]')
    assert message.encryption_type is EncryptionType.NEW_KEY_AND_AES
    assert isinstance(message, StreamMessage)
    with pytest.raises(Corrupt, match=r"^\[5\] encryption_type: "):
        parse_stream_message(f'[32,{ID},null,27,0,3,null,"00ff",null,2,"0xab"]')
