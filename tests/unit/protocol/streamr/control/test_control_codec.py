"""Reading and writing control messages, judged by what real releases wrote."""

import json
from typing import Any

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.streamr.control import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    LegacyPublishRequest,
    LegacyResendRequest,
    ProxyConnectionRequest,
    ProxyConnectionResponse,
    PublishRequest,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseResending,
    SubscribeRequest,
    UnicastMessage,
    UnsubscribeRequest,
    parse_control_message,
)
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from tests.support.expected_fields import assert_has_fields
from tests.support.streamr_vectors import load_vectors

VECTORS = {version: load_vectors(f"messages_control_v{version}") for version in (0, 1, 2)}
CLASS_NAMES = {
    "publish": "LegacyPublishRequest",
    "subscribe": "SubscribeRequest",
    "unsubscribe": "UnsubscribeRequest",
    "resend": "LegacyResendRequest",
    "PublishStreamConnectionRequest": "ProxyConnectionRequest",
    "PublishStreamConnectionResponse": "ProxyConnectionResponse",
}
STREAM_MESSAGE = '[31,["s",0,9,1,"p","c"],null,27,0,"{}",0,null]'


def test_every_vector_is_here() -> None:
    assert [len(VECTORS[version]) for version in (0, 1, 2)] == [77, 146, 115]
    types = {vector["type"] for vector in VECTORS[2]}
    assert len(types) == 18  # types 0 to 15, of which 14 and 15 in two forms


@pytest.mark.parametrize("vector", [*VECTORS[0], *VECTORS[1], *VECTORS[2]])
def test_a_real_message_is_read_to_its_fields_and_written_byte_for_byte(vector: dict[str, Any]) -> None:
    message = parse_control_message(vector["serialized"])
    assert message.version == vector["version"]
    assert type(message).__name__ == CLASS_NAMES.get(vector["type"], vector["type"])
    assert_has_fields(message, vector["fields"])
    if vector["type"] == "subscribe":  # releases disagree on the order of its keys
        assert json.loads(message.serialize()) == json.loads(vector["serialized"])
    else:
        assert message.serialize() == vector["serialized"]
    assert parse_control_message(message.serialize().encode()) == message


SUBSCRIBE = SubscribeRequest(request_id="r", stream_id="s", session_token="t")
LAST = ResendLastRequest(request_id="r", stream_id="s", number_last=5)
FROM = ResendFromRequest(
    request_id="r", stream_id="s", from_msg_ref=MessageRef(1, 0), publisher_id="p", msg_chain_id="c"
)
BROADCAST = BroadcastMessage(stream_message=StreamMessage(MessageID("s", 0, 9, 1, "p", "c"), "{}", version=31))


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (SUBSCRIBE, 2, '[2,9,"r","s",0,"t"]'),
        (SUBSCRIBE, 1, '[1,9,"s",0,"t"]'),
        (SUBSCRIBE, 0, '{"type":"subscribe","stream":"s","partition":0,"sessionToken":"t"}'),
        (LAST, 1, '[1,11,"s",0,"r",5,null]'),
        (FROM, 2, '[2,12,"r","s",0,[1,0],"p",null]'),
        (FROM, 1, '[1,12,"s",0,"r",[1,0],"p","c",null]'),
        (ErrorResponse(error_message="m"), 2, '[2,7,"","m","UNKNOWN"]'),
        (ErrorResponse(error_message="m", error_code="C"), 1, '[1,7,"m"]'),
        (ErrorResponse(error_message="m", error_code="C"), 0, '[0,7,null,{"error":"m"}]'),
        (BROADCAST, 1, f"[1,0,{STREAM_MESSAGE}]"),
        (BROADCAST, 0, f"[0,0,null,{STREAM_MESSAGE}]"),
        (
            ResendResponseResending(request_id="r", stream_id="s"),
            0,
            '[0,4,null,{"stream":"s","partition":0,"sub":"r"}]',
        ),
    ],
)
def test_a_message_is_written_in_the_requested_version(message: ControlMessage, version: int, expected: str) -> None:
    assert message.serialize(version=version) == expected
    assert parse_control_message(expected).serialize() == expected


def test_the_stream_message_within_is_written_in_the_requested_version() -> None:
    assert BROADCAST.serialize(version=1, stream_version=30) == '[1,0,[30,["s",0,9,1,"p","c"],null,27,"{}",0,null]]'
    assert BROADCAST.serialize(stream_version=32).startswith('[2,0,"",[32,')


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (PublishRequest(stream_message=BROADCAST.stream_message), 0),
        (LAST, 0),
        (LegacyPublishRequest(stream_id="s", content="{}", auth_key="k"), 2),
        (LegacyResendRequest(stream_id="s", request_id="r", resend_all=True), 1),
        (ProxyConnectionRequest(stream_id="s", sender_id="n"), 0),
        (SUBSCRIBE, 3),
        (ResendLastRequest(stream_id="s", number_last=5), 2),
        (UnicastMessage(stream_message=BROADCAST.stream_message), 0),
    ],
)
def test_what_a_version_cannot_say_is_not_written(message: ControlMessage, version: int) -> None:
    with pytest.raises(Unsupported, match="cannot be written"):
        message.serialize(version=version)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[2,8,"r",[31,["s",0,-9],null,27,0,"{}",0,null],null]', "[3][1][3] sequence_number: is missing"),
        ('[2,8,"r","[31",null]', "[3] stream_message: not JSON"),
        ('[2,8,"r"]', "[3] stream_message: is missing"),
        (f"[2,8,5,{STREAM_MESSAGE},null]", "[2] request_id: must be a string, not 5"),
        (f'[2,8,"r",{STREAM_MESSAGE},7]', "[4] session_token: must be a string or null, not 7"),
        (f"[2,0,null,{STREAM_MESSAGE}]", "[2] request_id: must be a string, not null"),
        ('[2,12,"r","s",0,[1,"0"],null,null]', "[5][1] sequence_number: must be a whole number, 0 or more"),
        ('[2,9,"r","s","0"]', "[4] stream_partition: must be a whole number, 0 or more"),
        ('[2,13,"r","s",0,[2,0],[1,9],null,null,null]', "[5] from_msg_ref: is later than to_msg_ref"),
        ('[1,4,"s",0]', "[4] request_id: is missing"),
        ('[2,15,"r","s",0,"n",1]', "[6] accepted: must be true or false"),
        ('[0,2,null,{"stream":5}]', "[3].stream stream_id: must be"),
        ("[0,4,null,[]]", "[3] payload: must be an object"),
        ("[0,4,null]", "[3] payload: is missing"),
        (
            '{"type":"publish","stream":"s","authKey":"k","msg":"{}","ts":"soon"}',
            ".ts timestamp: must be a time",
        ),
        ('{"type":"resend","stream":"s","sub":"x","resend_last":-1}', ".resend_last resend_last: must be"),
        ('[0,1,5,[28,"s",0,1,0,5,4,27,"{}"]]', "[2] request_id: must be a string, not 5"),
        ('[0,1,"x",[28,"s",0,1,0,5,4,27]]', "[3][8] content: is missing"),
        ("true", "control_message: must be an array or an object, not true"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_control_message(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    "text",
    [
        "[3,9]",
        '["2",9]',
        "[2]",
        "[2,16]",
        "[2,[9]]",
        f'[2,false,"",{STREAM_MESSAGE}]',
        "[1,true]",
        "[0,8,null,{}]",
        '{"type":[]}',
        '{"version":1}',
    ],
)
def test_an_unknown_version_or_type_is_unsupported_and_not_corrupt(text: str) -> None:
    with pytest.raises(Unsupported):
        parse_control_message(text)


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS[2] if vector["type"] in ("PublishRequest", "BroadcastMessage")]
)
def test_what_is_read_in_one_go_is_what_the_tables_read(vector: dict[str, Any]) -> None:
    with_more = json.dumps([*json.loads(vector["serialized"]), "ignored"])

    assert parse_control_message(vector["serialized"]) == parse_control_message(with_more)


def test_text_that_ends_too_early_is_truncated_and_other_invalid_text_is_corrupt() -> None:
    for whole in (SUBSCRIBE.serialize(), SUBSCRIBE.serialize(version=0), BROADCAST.serialize()):
        for length in range(len(whole)):
            with pytest.raises(Truncated):
                parse_control_message(whole[:length])


def test_a_resend_from_request_of_nine_elements_has_the_chain_before_the_token() -> None:
    eight = parse_control_message('[2,12,"r","s",0,[1,0],"p","token"]')
    nine = parse_control_message('[2,12,"r","s",0,[1,0],"p","chain","token"]')
    assert isinstance(eight, ResendFromRequest)
    assert isinstance(nine, ResendFromRequest)
    assert (eight.msg_chain_id, eight.session_token) == (None, "token")
    assert (nine.msg_chain_id, nine.session_token) == ("chain", "token")
    assert nine.serialize() == eight.serialize()
    assert parse_control_message('[2,12,"r","s",0,[1,0],"p","token","extra","extra"]') == eight


def test_proxy_connections_are_read_in_the_form_before_and_after_release_13() -> None:
    before = ProxyConnectionResponse(request_id="r", stream_id="s", sender_id="n", accepted=True)
    after = ProxyConnectionResponse(request_id="r", stream_id="s", sender_id="n", accepted=True, direction="publish")
    assert before.serialize() == '[2,15,"r","s",0,"n",true]'
    assert after.serialize() == '[2,15,"r","s",0,"n","publish",true]'
    assert [parse_control_message(m.serialize()) for m in (before, after)] == [before, after]


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        ("1533924184016", 1533924184016),
        ('"1533924184016"', 1533924184016),
        ('"2018-08-10T18:03:04.016Z"', 1533924184016),
        ('"2018-08-10T20:03:04.016+02:00"', 1533924184016),
        ('"2018-08-10T18:03:04.016"', 1533924184016),
        ("null", None),
    ],
)
def test_a_legacy_publish_request_takes_its_time_in_many_forms(ts: str, expected: int | None) -> None:
    message = parse_control_message(f'{{"type":"publish","stream":"s","authKey":"k","msg":"{{}}","ts":{ts}}}')
    assert isinstance(message, LegacyPublishRequest)
    assert message.timestamp == expected


def test_a_legacy_publish_request_may_hold_its_message_as_json() -> None:
    message = parse_control_message('{"type":"publish","stream":"s","authKey":"k","msg":{"a":1}}')
    assert isinstance(message, LegacyPublishRequest)
    assert message.content == '{"a":1}'


def test_a_legacy_request_for_no_partition_means_the_first() -> None:
    for kind in ("subscribe", "unsubscribe"):
        message = parse_control_message(f'{{"type":"{kind}","stream":"s"}}')
        assert isinstance(message, SubscribeRequest | UnsubscribeRequest)
        assert message.stream_partition == 0


def test_a_resend_range_may_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="from_msg_ref: is later"):
        ResendRangeRequest(request_id="r", stream_id="s", from_msg_ref=MessageRef(2, 0), to_msg_ref=MessageRef(1, 0))


def test_tokens_and_keys_are_not_shown() -> None:
    messages: list[ControlMessage] = [
        SubscribeRequest(stream_id="s", session_token="secret", auth_key="secret"),
        PublishRequest(stream_message=BROADCAST.stream_message, session_token="secret"),
        LegacyPublishRequest(stream_id="s", content="{}", auth_key="secret", session_token="secret"),
        ResendLastRequest(request_id="r", stream_id="s", number_last=1, session_token="secret"),
    ]
    assert "secret" not in repr(messages)


def test_an_error_does_not_quote_what_may_be_a_token_in_the_wrong_place() -> None:
    with pytest.raises(Corrupt) as caught:
        parse_control_message('[2,9,"request","stream","my-session-token"]')
    assert str(caught.value) == "[4] stream_partition: must be a whole number, 0 or more, not a string of 16"


def test_the_draft_of_stream_version_32_is_read_within_on_demand() -> None:
    text = '[2,0,"",[32,["s",0,9,1,"p","c"],null,27,0,0,null,"{}",2,"0xab"]]'
    with pytest.raises(WireError):
        parse_control_message(text)
    message = parse_control_message(text, documents=True)
    assert isinstance(message, BroadcastMessage)
    assert message.stream_message.draft
    assert message.serialize() == text
