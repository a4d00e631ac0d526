"""Encrypted content and in-message key rotation, judged by what real clients encrypted."""

import subprocess
import sys
from typing import Any

import pytest

from protocol.errors import Corrupt
from protocol.streamr.group_keys.encryption import (
    IV_BYTES,
    Decrypted,
    decrypt,
    decrypt_message,
    encrypt,
    encrypt_message,
)
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import verify
from tests.support.streamr_vectors import load_vectors

KEY = GroupKey("key-1", bytes(range(32)))
NEXT_KEY = GroupKey("key-2", bytes(range(32, 64)))
IV = bytes(range(200, 216))


def counting_bytes(length: int) -> bytes:
    return bytes(range(length))


def a_message(**changes: Any) -> StreamMessage:
    parts: dict[str, Any] = {
        "message_id": MessageID("stream", 0, 1, 0, "0xab", "chain"),
        "content": '{"a":"ä"}',
    }
    return StreamMessage(**{**parts, **changes})


@pytest.mark.parametrize(("name", "count"), [("aes", 112), ("aes_counter_wrap", 3)])
def test_every_text_is_encrypted_and_decrypted_as_real_clients_do(name: str, count: int) -> None:
    vectors = load_vectors(name)
    assert len(vectors) == count
    for vector in vectors:
        key, plaintext = GroupKey("", bytes.fromhex(vector["groupKeyHex"])), vector["plaintext"].encode()
        assert encrypt(plaintext, key, iv=bytes.fromhex(vector["iv"])) == vector["ciphertextHex"]
        assert decrypt(vector["ciphertextHex"], key) == plaintext


def test_messages_of_version_32_are_decrypted_and_hand_over_their_next_key() -> None:
    vectors = load_vectors("aes_v32_messages")
    assert len(vectors) == 9
    for vector in vectors:
        message = parse_stream_message(vector["serialized"])
        assert verify(message)
        assert decrypt_message(message, key_of(vector["groupKey"])) == Decrypted(
            vector["plaintext"], key_of(vector["newGroupKey"]) if vector["newGroupKey"] else None
        )


def key_of(pair: list[str]) -> GroupKey:
    return GroupKey(pair[0], bytes.fromhex(pair[1]))


def test_messages_of_version_31_are_decrypted_and_hand_over_their_next_key() -> None:
    vectors = load_vectors("aes_v31_new_key")
    assert len(vectors) == 3
    for vector in vectors:
        key, next_key = (GroupKey("", bytes.fromhex(vector[name])) for name in ("groupKeyHex", "newGroupKeyHex"))
        message = parse_stream_message(vector["serialized"])
        assert decrypt_message(message, key) == Decrypted(vector["plaintext"], next_key)


@pytest.mark.parametrize("next_key", [None, NEXT_KEY])
def test_message_of_version_32_comes_back_as_it_was(next_key: GroupKey | None) -> None:
    encrypted = encrypt_message(a_message(), KEY, counting_bytes, next_key=next_key)
    assert encrypted.group_key_id == "key-1"
    assert decrypt_message(encrypted, KEY) == Decrypted('{"a":"ä"}', next_key)
    if encrypted.new_group_key is not None:
        assert len(encrypted.new_group_key.encrypted_hex) == 96


@pytest.mark.parametrize("next_key", [None, GroupKey("", NEXT_KEY.key)])
def test_message_of_version_31_comes_back_as_it_was(next_key: GroupKey | None) -> None:
    encrypted = encrypt_message(a_message(version=31), KEY, counting_bytes, next_key=next_key)
    assert encrypted.encryption_type == (EncryptionType.AES if next_key is None else EncryptionType.NEW_KEY_AND_AES)
    assert decrypt_message(encrypted, KEY) == Decrypted('{"a":"ä"}', next_key)


def test_every_encryption_of_a_message_asks_for_fresh_randomness() -> None:
    asked: list[int] = []

    def random_bytes(length: int) -> bytes:
        asked.append(length)
        return bytes([len(asked)]) * length

    encrypted = encrypt_message(a_message(), KEY, random_bytes, next_key=NEXT_KEY)
    assert asked == [IV_BYTES, IV_BYTES]
    assert encrypted.new_group_key is not None
    assert encrypted.content[:32] != encrypted.new_group_key.encrypted_hex[:32]


def test_wrong_key_of_the_right_name_shows_as_corrupt() -> None:
    encrypted = encrypt_message(a_message(), KEY, counting_bytes)
    with pytest.raises(Corrupt, match="another key"):
        decrypt_message(encrypted, GroupKey("key-1", NEXT_KEY.key))


def test_key_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"key-1.*key-2"):
        decrypt_message(encrypt_message(a_message(), KEY, counting_bytes), NEXT_KEY)


@pytest.mark.parametrize("text", ["", "0", "00" * 15, "zz" * 20, "0x" + "00" * 20, " " + "00" * 20, "é" * 40])
def test_text_that_is_not_iv_and_ciphertext_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        decrypt(text, KEY)


def test_version_31_message_too_short_for_its_key_is_corrupt() -> None:
    short = a_message(
        version=31, encryption_type=EncryptionType.NEW_KEY_AND_AES, content=encrypt(b"x" * 31, KEY, iv=IV)
    )
    with pytest.raises(Corrupt, match="too short for the next key"):
        decrypt_message(short, KEY)


def test_next_key_of_the_wrong_size_is_corrupt() -> None:
    encrypted = encrypt_message(a_message(), KEY, counting_bytes, next_key=NEXT_KEY)
    assert encrypted.new_group_key is not None
    longer = encrypted.new_group_key.build("key-2", encrypted.new_group_key.encrypted_hex + "00")
    with pytest.raises(Corrupt, match="33 bytes"):
        decrypt_message(encrypted.replace(new_group_key=longer), KEY)


def test_message_is_not_encrypted_twice() -> None:
    with pytest.raises(ValueError, match="already"):
        encrypt_message(encrypt_message(a_message(), KEY, counting_bytes), KEY, counting_bytes)


@pytest.mark.parametrize("version", [30, 32])
def test_what_the_version_cannot_say_is_refused(version: int) -> None:
    nameless = GroupKey("", KEY.key)
    with pytest.raises(ValueError, match=r"group_key_id|encryption_type"):
        encrypt_message(a_message(version=version), nameless, counting_bytes)


def test_plain_and_rsa_messages_are_not_decrypted_with_a_group_key() -> None:
    for encryption_type in (EncryptionType.NONE, EncryptionType.RSA):
        with pytest.raises(ValueError, match="not AES"):
            decrypt_message(a_message(encryption_type=encryption_type), KEY)


def test_iv_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="iv"):
        encrypt(b"", KEY, iv=b"\x00" * 15)


def test_group_key_never_shows_its_bytes() -> None:
    for shown in (repr(KEY), str(KEY), f"{KEY}"):
        assert KEY.key.hex() not in shown
        assert repr(KEY.key) not in shown
    with pytest.raises(ValueError, match="31 bytes") as caught:
        GroupKey("id", b"\xaa" * 31)
    assert "aa" * 31 not in str(caught.value)


def test_group_key_is_not_named_like_a_pem_text() -> None:
    with pytest.raises(ValueError, match="group_key_id"):
        GroupKey("-----BEGIN PUBLIC KEY-----", KEY.key)


def test_cryptography_is_not_imported_before_something_is_encrypted() -> None:
    program = (
        "import sys, protocol.streamr.group_keys.encryption, protocol.streamr.group_keys.rsa\n"
        "sys.exit(any(name.partition('.')[0] == 'cryptography' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
