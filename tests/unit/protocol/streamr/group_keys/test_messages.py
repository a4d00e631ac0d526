"""The contents of key exchange messages, in every version's form."""

from typing import Any

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.streamr.group_keys.codec import parse_group_key_message
from protocol.streamr.group_keys.messages import (
    DraftGroupKeyReset,
    DraftGroupKeyRotate,
    EncryptedKey,
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyMessage,
    GroupKeyRequest,
    GroupKeyResponse,
    KeyRange,
    TimedKey,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
)
from protocol.streamr.stream_message import MessageType, parse_stream_message
from tests.support.streamr_vectors import load_vectors

EXCHANGED = [
    message
    for name in ("messages_stream", "key_exchange_v32")
    for message in (parse_stream_message(vector["serialized"]) for vector in load_vectors(name))
    if message.message_type is not MessageType.MESSAGE
]


def test_the_vectors_hold_every_type_in_both_forms() -> None:
    assert len(EXCHANGED) == 30
    forms = {(message.message_type, message.content[0]) for message in EXCHANGED}
    assert forms == {(kind, form) for kind in (28, 29, 30, 31) for form in "[{"}


@pytest.mark.parametrize("message", EXCHANGED)
def test_a_real_content_is_read_and_written_byte_for_byte(message: Any) -> None:
    content = parse_group_key_message(message.message_type, message.content)
    assert content.message_type is message.message_type
    assert content.serialize() == message.content


KEY = EncryptedKey("k", "ff")
CONTENTS: list[tuple[GroupKeyMessage, str]] = [
    (
        GroupKeyRequest(request_id="r", stream_id="s", rsa_public_key="pem", group_key_ids=("k",)),
        '["r","s","pem",["k"]]',
    ),
    (GroupKeyResponse(request_id="r", stream_id="s", group_keys=(KEY,)), '["r","s",[["k","ff"]]]'),
    (GroupKeyResponse(request_id="r", stream_id="s", group_keys=()), '["r","s",[]]'),
    (GroupKeyAnnounce(stream_id="s", group_keys=(KEY, KEY)), '["s",[["k","ff"],["k","ff"]]]'),
    (
        GroupKeyErrorResponse(
            request_id="r", stream_id="s", error_code="C", error_message="m", group_key_ids=("k", "l")
        ),
        '["r","s","C","m",["k","l"]]',
    ),
    (TimedKeyRequest(stream_id="s", public_key="pem"), '{"streamId":"s","publicKey":"pem"}'),
    (
        TimedKeyRequest(request_id="r", stream_id="s", public_key="pem", range=KeyRange(1, 2)),
        '{"requestId":"r","streamId":"s","publicKey":"pem","range":{"start":1,"end":2}}',
    ),
    (
        TimedKeyResponse(request_id="r", stream_id="s", keys=(TimedKey("ff", 5),)),
        '{"requestId":"r","streamId":"s","keys":[{"groupKey":"ff","start":5}]}',
    ),
    (TimedKeyReset(stream_id="s", group_key="ff", start=5), '{"streamId":"s","groupKey":"ff","start":5}'),
    (TimedKeyErrorResponse(code="C", message="m"), '{"code":"C","message":"m"}'),
]
DRAFT_CONTENTS: list[tuple[GroupKeyMessage, str]] = [
    (DraftGroupKeyReset(stream_id="s", group_key_id="k", group_key_hex="ff"), '["s","k","ff"]'),
    (DraftGroupKeyRotate(group_key_id="k", group_key_hex="ff"), '["k","ff"]'),
]


@pytest.mark.parametrize(("content", "text"), CONTENTS)
def test_each_content_has_one_text(content: GroupKeyMessage, text: str) -> None:
    assert content.serialize() == text
    assert parse_group_key_message(content.message_type, text) == content


@pytest.mark.parametrize(("content", "text"), DRAFT_CONTENTS)
def test_the_contents_of_the_draft_are_read_on_demand(content: GroupKeyMessage, text: str) -> None:
    assert content.serialize() == text
    assert parse_group_key_message(content.message_type, text, draft=True) == content
    with pytest.raises(WireError):
        parse_group_key_message(content.message_type, text)


def test_the_drafts_example_of_a_reset_lacks_the_stream() -> None:
    reset = parse_group_key_message(MessageType.GROUP_KEY_RESET, '["keyId","123abc"]', draft=True)
    assert reset == DraftGroupKeyReset(stream_id=None, group_key_id="keyId", group_key_hex="123abc")


@pytest.mark.parametrize(("content", "_text"), DRAFT_CONTENTS)
def test_a_key_in_the_clear_is_not_shown(content: GroupKeyMessage, _text: str) -> None:
    assert "ff" not in repr(content)


def test_a_single_key_without_its_outer_array_is_read_as_the_documents_show_it() -> None:
    response = parse_group_key_message(MessageType.GROUP_KEY_RESPONSE, '["r","s",["k","ff"]]')
    assert response == GroupKeyResponse(request_id="r", stream_id="s", group_keys=(KEY,))


@pytest.mark.parametrize(
    ("message_type", "text", "problem"),
    [
        (28, '["r","s","pem",["k",5]]', "[3] group_key_ids: must be an array of strings"),
        (28, '["r","s","pem"]', "[3] group_key_ids: is missing"),
        (28, '["r","s",null,[]]', "[2] rsa_public_key: must be a string"),
        (29, '["r","s",[["k"]]]', "[2][0] group_keys: must be pairs"),
        (29, '["r","s","k"]', "[2] group_keys: must be an array"),
        (31, '["r","s","C",5,[]]', "[3] error_message: must be a string"),
        (28, '{"streamId":"s"}', ".publicKey public_key: is missing"),
        (28, '{"streamId":"s","publicKey":"p","range":5}', ".range range: must be an object"),
        (29, '{"streamId":"s","keys":[{"groupKey":"ff"}]}', ".keys[0].start start: must be"),
        (30, '{"streamId":"s","groupKey":"ff","start":-1}', ".start start: must be"),
        (28, "5", "content: must be an array"),
    ],
)
def test_a_wrong_content_is_refused_with_its_place(message_type: int, text: str, problem: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_group_key_message(MessageType(message_type), text)
    assert str(caught.value).startswith(problem)


def test_other_messages_have_no_such_content() -> None:
    with pytest.raises(Unsupported, match="message type 27"):
        parse_group_key_message(MessageType.MESSAGE, "[]")
    with pytest.raises(Truncated):
        parse_group_key_message(MessageType.GROUP_KEY_REQUEST, "[")


def test_keys_are_checked_when_a_content_is_made() -> None:
    with pytest.raises(ValueError, match=r"^group_keys: "):
        GroupKeyAnnounce(stream_id="s", group_keys=(("k", "ff"),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^group_keys: "):
        GroupKeyAnnounce(stream_id="s", group_keys=(EncryptedKey("k", 5),))  # type: ignore[arg-type]
