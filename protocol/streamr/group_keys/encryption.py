"""Encrypted content: AES-256 in counter mode, and the next key inside a message (rotation).

    hex of the initial counter block (16 bytes) ‖ hex of the ciphertext

There is no padding and no authentication: the signature of the message covers the ciphertext and protects it from
change. The plaintext of a message is its content in UTF-8.

A message with the next key, in version 32: beside its own content, `new_group_key` holds the id of that key and its 32
bytes, encrypted like a content. In version 31: the encryption type is NEW_KEY_AND_AES, and the plaintext is the 32
bytes, then the content.

In both versions the message itself is encrypted with the current key, and the one after it with the next.
"""

import binascii
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import Corrupt, WireError
from protocol.streamr.group_keys.group_key import GROUP_KEY_BYTES, GroupKey
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import EncryptedGroupKey, EncryptionType, StreamMessage

IV_BYTES: Final = 16

RandomBytes = Callable[[int], bytes]
"""Returns that many unpredictable bytes, as `os.urandom` does."""


class Decrypted(NamedTuple):
    """The content of an encrypted message, and the key for the messages after it, if it has one."""

    content: str
    next_key: GroupKey | None


def encrypt(plaintext: bytes, key: GroupKey, *, iv: bytes) -> str:
    """The hex of IV and ciphertext. The same IV must never be used twice with one key."""
    if len(iv) != IV_BYTES:
        raise ValueError(f"iv: has {len(iv)} bytes, not {IV_BYTES}")
    return (iv + _apply_key_stream(plaintext, key, iv)).hex()


def decrypt(encrypted_hex: str, key: GroupKey) -> bytes:
    """The plaintext; with a wrong key, noise. Raises: `Corrupt` if the text is not IV and ciphertext in hex."""
    try:
        raw = binascii.unhexlify(encrypted_hex)
    except ValueError:
        raise Corrupt("encrypted text is not hex digits in pairs") from None
    if len(raw) < IV_BYTES:
        raise Corrupt(f"encrypted text of {len(raw)} bytes is too short for the IV of {IV_BYTES}")
    return _apply_key_stream(raw[IV_BYTES:], key, raw[:IV_BYTES])


def encrypt_message(
    message: StreamMessage, key: GroupKey, random_bytes: RandomBytes, *, next_key: GroupKey | None = None
) -> StreamMessage:
    """The message with its content encrypted, and with `next_key` if one is given. Sign it afterwards.

    Raises ValueError if the message is encrypted already, or of a version without encryption.
    """
    if message.encryption_type is not EncryptionType.NONE:
        raise ValueError("encryption_type: the message is encrypted already")
    plaintext = message.content.encode()
    if message.version == 31:
        return _encrypt_message_31(message, plaintext, key, next_key, random_bytes(IV_BYTES))
    if not key.group_key_id:
        raise ValueError("group_key_id: is empty; version 32 names its keys")
    return message.replace(
        encryption_type=EncryptionType.AES,
        group_key_id=key.group_key_id,
        content=encrypt(plaintext, key, iv=random_bytes(IV_BYTES)),
        new_group_key=None if next_key is None else wrap_next_key(next_key, key, iv=random_bytes(IV_BYTES)),
    )


def decrypt_message(message: StreamMessage, key: GroupKey) -> Decrypted:
    """The content of an encrypted message. Check its signature first.

    Raises: `Corrupt` if the result is not JSON (a wrong key is not detected otherwise); ValueError if the message is
    not encrypted with AES, or with a key of another id.
    """
    match message.encryption_type:
        case EncryptionType.AES:
            return Decrypted(_decrypt_content(message, key), unwrap_next_key(message.new_group_key, key))
        case EncryptionType.NEW_KEY_AND_AES:
            return _decrypt_content_and_key_31(message.content, key)
        case other:
            raise ValueError(f"encryption_type: {other.name} is not AES")


def wrap_next_key(next_key: GroupKey, key: GroupKey, *, iv: bytes) -> EncryptedGroupKey:
    """The next key as in a message of version 32."""
    if not next_key.group_key_id:
        raise ValueError("group_key_id: the next key has none; version 32 names its keys")
    return EncryptedGroupKey.build(next_key.group_key_id, encrypt(next_key.key, key, iv=iv))


def unwrap_next_key(wrapped: EncryptedGroupKey | None, key: GroupKey) -> GroupKey | None:
    """Raises `Corrupt` if it does not decrypt to 32 bytes, or if its id is invalid."""
    if wrapped is None:
        return None
    try:
        return GroupKey(wrapped.group_key_id, decrypt(wrapped.encrypted_hex, key))
    except ValueError as problem:
        raise Corrupt(f"new group key: {problem}") from None


def _encrypt_message_31(
    message: StreamMessage, plaintext: bytes, key: GroupKey, next_key: GroupKey | None, iv: bytes
) -> StreamMessage:
    if next_key is None:
        return message.replace(encryption_type=EncryptionType.AES, content=encrypt(plaintext, key, iv=iv))
    return message.replace(
        encryption_type=EncryptionType.NEW_KEY_AND_AES, content=encrypt(next_key.key + plaintext, key, iv=iv)
    )


def _decrypt_content(message: StreamMessage, key: GroupKey) -> str:
    if message.version == 32 and message.group_key_id != key.group_key_id:
        raise ValueError(
            f"group_key_id: the message is encrypted with {message.group_key_id!r}, not {key.group_key_id!r}"
        )
    return _decode_content(decrypt(message.content, key))


def _decrypt_content_and_key_31(content: str, key: GroupKey) -> Decrypted:
    plaintext = decrypt(content, key)
    if len(plaintext) < GROUP_KEY_BYTES:
        raise Corrupt(f"plaintext of {len(plaintext)} bytes is too short for the next key of {GROUP_KEY_BYTES}")
    return Decrypted(_decode_content(plaintext[GROUP_KEY_BYTES:]), GroupKey("", plaintext[:GROUP_KEY_BYTES]))


def _decode_content(plaintext: bytes) -> str:
    try:
        decode_json(plaintext)
    except WireError:
        raise Corrupt("content does not decrypt to JSON; it was encrypted with another key, or is damaged") from None
    return plaintext.decode()


def _apply_key_stream(data: bytes, key: GroupKey, iv: bytes) -> bytes:
    """Encrypt or decrypt: counter mode is its own inverse."""
    # loaded here because it takes 9 MB, and only encrypted streams need it
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(key.key), modes.CTR(iv)).encryptor()
    return stream.update(data) + stream.finalize()
