import pytest
from nacl.public import PrivateKey, PublicKey, SealedBox

from protocol.archive.encryption import (
    CHUNK_BYTES,
    ENVELOPE_BYTES,
    MAX_CHUNK_BYTES,
    Decryptor,
    EncryptionKeys,
    Encryptor,
    derive_encryption_keys,
    encrypted_for,
    is_encrypted,
)
from protocol.errors import Corrupt, Truncated, Unsupported, WireError

COLLECTOR = PrivateKey(b"k" * 32)
KEYS = derive_encryption_keys(b"s" * 32, b"a" * 32, COLLECTOR.public_key)
ENCRYPTED_CHUNK_BYTES = CHUNK_BYTES + 16


def encrypt(
    data: bytes, *, piece_bytes: int = 100_000, keys: EncryptionKeys = KEYS, to: PublicKey = COLLECTOR.public_key
) -> bytes:
    encryptor = Encryptor(keys, to)
    pieces = [encryptor.update(data[start : start + piece_bytes]) for start in range(0, len(data), piece_bytes)]
    return b"".join([encryptor.begin(), *pieces, encryptor.finish()])


def open_encrypted(data: bytes, *, piece_bytes: int = 100_000, key: PrivateKey = COLLECTOR) -> bytes:
    decryptor = Decryptor(key)
    pieces: list[bytes] = []
    for start in range(0, len(data), piece_bytes):
        pieces += decryptor.feed(data[start : start + piece_bytes])
    return b"".join([*pieces, decryptor.finish()])


LONG = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"rest"
ENCRYPTED = encrypt(LONG)


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_round_trip_at_and_around_the_length_of_a_chunk(length: int) -> None:
    data = LONG[:length]
    assert open_encrypted(encrypt(data)) == data


def test_pieces_of_any_size_give_the_same() -> None:
    assert encrypt(LONG, piece_bytes=777) == ENCRYPTED
    assert open_encrypted(ENCRYPTED, piece_bytes=777) == LONG
    assert open_encrypted(encrypt(b"tiny"), piece_bytes=1) == b"tiny"


def test_the_content_key_is_in_a_plain_encrypted_box() -> None:
    assert SealedBox(COLLECTOR).decrypt(ENCRYPTED[40:120]) == KEYS.content_key


def test_the_same_archive_encrypts_to_the_same_file_and_another_to_another() -> None:
    assert encrypt(LONG) == ENCRYPTED
    assert derive_encryption_keys(b"s" * 32, b"b" * 32, COLLECTOR.public_key) != KEYS
    assert derive_encryption_keys(b"t" * 32, b"a" * 32, COLLECTOR.public_key) != KEYS
    assert derive_encryption_keys(b"s" * 32, b"a" * 32, PrivateKey(b"o" * 32).public_key) != KEYS


def test_no_other_key_opens_it_and_the_file_says_whose_does() -> None:
    assert encrypted_for(ENCRYPTED) == COLLECTOR.public_key
    with pytest.raises(Unsupported, match="encrypted for the key"):
        open_encrypted(ENCRYPTED, key=PrivateKey(b"o" * 32))


def test_nothing_of_the_content_shows() -> None:
    assert b"rest" not in ENCRYPTED
    assert LONG[:16] not in ENCRYPTED


def test_chunks_cannot_be_swapped_dropped_or_cut_off() -> None:
    start, size = ENVELOPE_BYTES, ENCRYPTED_CHUNK_BYTES
    first, second, rest = (
        ENCRYPTED[start : start + size],
        ENCRYPTED[start + size : start + 2 * size],
        ENCRYPTED[start + 2 * size :],
    )
    with pytest.raises(Corrupt, match="chunk 0 was changed or moved"):
        open_encrypted(ENCRYPTED[:start] + second + first + rest)
    with pytest.raises(Corrupt, match="chunk 1 was changed or moved"):
        open_encrypted(ENCRYPTED[:start] + first + rest)
    with pytest.raises(Truncated, match="before its last chunk"):
        open_encrypted(ENCRYPTED[:start] + first + second)


@pytest.mark.parametrize(
    "length", [0, 5, 8, 123, 124, 130, ENVELOPE_BYTES + ENCRYPTED_CHUNK_BYTES + 20, len(ENCRYPTED) - 1]
)
def test_a_beginning_is_truncated(length: int) -> None:
    with pytest.raises(Truncated):
        open_encrypted(ENCRYPTED[:length])


def test_no_byte_of_a_small_encrypted_file_can_change_unnoticed() -> None:
    encrypted = encrypt(b"small")
    for offset in range(len(encrypted)):
        damaged = bytearray(encrypted)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            open_encrypted(bytes(damaged))


def test_what_is_not_encrypted_or_of_another_version_says_so() -> None:
    assert is_encrypted(ENCRYPTED)
    assert not is_encrypted(b"HGARCH\x00\x02")
    with pytest.raises(Corrupt, match="not an encrypted archive"):
        open_encrypted(b"HGARCH\x00\x02" + bytes(200))
    with pytest.raises(Unsupported, match="encrypted format 0002"):
        open_encrypted(b"HGSEAL\x00\x02" + ENCRYPTED[8:])
    with pytest.raises(Corrupt, match="chunks of"):
        open_encrypted(ENCRYPTED[:120] + (MAX_CHUNK_BYTES + 1).to_bytes(4, "big") + ENCRYPTED[124:])


def test_the_keys_do_not_show_themselves() -> None:
    assert repr(KEYS) == str(KEYS) == "EncryptionKeys(<secret>)"
