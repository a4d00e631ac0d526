from agent.operator.contents import Locked, Opened, Unreadable, open_message
from protocol.streamr.group_keys.encryption import encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import StreamMessage
from tests.support.pack_samples import binary_content, linked_readings, unsigned_message

KEY = GroupKey("key", b"\x11" * 32)
READINGS = linked_readings(3)


def encrypted(content: str, key: GroupKey = KEY) -> StreamMessage:
    return encrypt_message(unsigned_message(content), key, bytes)


def test_a_plain_message_is_opened_without_a_key() -> None:
    opened = open_message(unsigned_message(binary_content(READINGS)), None, "")
    assert isinstance(opened, Opened)
    assert opened.readings == tuple(READINGS)
    assert open_message(unsigned_message('{"n":1}'), None, "") == Opened(unsigned_message('{"n":1}'), '{"n":1}')


def test_an_encrypted_pack_is_opened_with_its_key() -> None:
    message = encrypted(binary_content(READINGS))
    assert open_message(message, None, "no key") == Locked(message, "no key")
    opened = open_message(message, KEY, "")
    assert isinstance(opened, Opened)
    assert opened.readings == tuple(READINGS)


def test_a_wrong_key_leaves_it_locked() -> None:
    assert isinstance(open_message(encrypted("{}"), GroupKey("key", b"\x12" * 32), ""), Locked)
    assert isinstance(open_message(encrypted("{}"), GroupKey("other", KEY.key), ""), Locked)


def test_a_pack_that_cannot_be_decoded_is_unreadable_with_the_reason() -> None:
    for message in (unsigned_message('{"ioMessages":"AAAA"}'), encrypted('{"ioMessages":"AAAA"}')):
        refused = open_message(message, KEY, "")
        assert isinstance(refused, Unreadable)
        assert "in a pack" in refused.reason
