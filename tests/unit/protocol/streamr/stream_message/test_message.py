"""Stream messages as values: what each version can say, and what is refused."""

import pickle
from typing import Any

import pytest

from protocol.errors import Unsupported
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import (
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    StreamMessage,
)

ID = MessageID("pumps/boiler", 0, 1000, 2, "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5", "chain")
LEGACY_ID = MessageID("pumps/boiler", 0, 1000)


def test_a_message_needs_no_more_than_its_id_and_content() -> None:
    message = StreamMessage(ID, '{"on":true}')
    assert (message.version, message.message_type, message.encryption_type) == (32, 27, 0)
    assert message.serialize() == (
        '[32,["pumps/boiler",0,1000,2,"0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5","chain"],null,27,0,0,null,'
        '"{\\"on\\":true}",null,0,null]'
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"message_id": ("s", 0, 1, 0, "p", "c")}, "message_id"),
        ({"prev_msg_ref": (1, 0)}, "prev_msg_ref"),
        ({"new_group_key": '["k","ff"]'}, "new_group_key"),
        ({"content": ""}, "content"),
        ({"content": b"{}"}, "content"),
        ({"prev_msg_ref": MessageRef(1000, 2)}, "prev_msg_ref"),
        ({"prev_msg_ref": MessageRef(2000, 0)}, "prev_msg_ref"),
        ({"message_type": 27}, "message_type"),
        ({"message_type": MessageType.GROUP_KEY_ROTATE}, "message_type"),
        ({"content_type": 0}, "content_type"),
        ({"encryption_type": 2}, "encryption_type"),
        ({"encryption_type": EncryptionType.NEW_KEY_AND_AES}, "encryption_type"),
        ({"signature_type": 2}, "signature_type"),
        ({"signature": b"0x"}, "signature"),
        ({"group_key_id": 5}, "group_key_id"),
        ({"version": 33}, "version"),
        ({"version": 31, "draft": True}, "version"),
        ({"version": 31, "group_key_id": "key"}, "group_key_id"),
        ({"version": 31, "message_type": MessageType.GROUP_KEY_ROTATE}, "message_type"),
        ({"version": 30, "encryption_type": EncryptionType.AES}, "encryption_type"),
        ({"draft": True, "new_group_key": EncryptedGroupKey('["k","ff"]')}, "new_group_key"),
        ({"version": 29}, "legacy"),
        ({"version": 32, "legacy": LegacyOffsets(offset=1)}, "legacy"),
        ({"version": 29, "legacy": LegacyOffsets(offset=1)}, "message_id"),
        ({"version": 28, "legacy": LegacyOffsets(offset=1), "message_id": MessageID("s", 0, 1, 0, "p")}, "message_id"),
        (
            {"version": 28, "message_id": LEGACY_ID, "legacy": LegacyOffsets(offset=1), "content": "{"},
            "content",
        ),
        (
            {"version": 28, "message_id": LEGACY_ID, "legacy": LegacyOffsets(offset=1), "signature": "0x"},
            "signature",
        ),
    ],
)
def test_a_message_that_its_version_cannot_hold_is_refused_by_the_name_of_the_field(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        StreamMessage(**{"message_id": ID, "content": "{}", **changes})


def test_a_changed_copy_is_checked_like_a_new_message() -> None:
    message = StreamMessage(ID, "{}")
    signed = message.replace(signature_type=SignatureType.ETH, signature="0xab")
    assert (signed.signature, message.signature) == ("0xab", None)
    with pytest.raises(ValueError, match=r"^content: "):
        message.replace(content="")


def test_a_message_cannot_be_changed_and_survives_a_pickle() -> None:
    message = StreamMessage(ID, "{}", MessageRef(999, 0), version=31, encryption_type=EncryptionType.AES)
    with pytest.raises(AttributeError):
        message.content = "[]"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(message)) == message


def test_a_number_that_its_readers_would_round_is_not_written() -> None:
    message = StreamMessage(MessageID("s", 0, 2**53), "{}")
    with pytest.raises(Unsupported, match="53-bit"):
        message.serialize()


def test_the_text_of_a_new_group_key_is_kept_as_it_came() -> None:
    key = EncryptedGroupKey('[ "key-2" , "ff" ]')
    assert (key.group_key_id, key.encrypted_hex, key.serialized) == ("key-2", "ff", '[ "key-2" , "ff" ]')
    assert EncryptedGroupKey.build("key-2", "ff").serialized == '["key-2","ff"]'


@pytest.mark.parametrize("text", ["[", "[]", '["k"]', '["k",5]', '[5,"ff"]', '"kk"', "{}", "null", ""])
def test_a_new_group_key_is_the_text_of_a_pair_of_strings(text: str) -> None:
    with pytest.raises(ValueError, match=r"^new_group_key: "):
        EncryptedGroupKey(text)


def test_the_only_content_type_is_json() -> None:
    assert list(ContentType) == [ContentType.JSON]
