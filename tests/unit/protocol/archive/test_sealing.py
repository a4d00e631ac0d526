import pytest
from nacl.public import PrivateKey, PublicKey, SealedBox

from protocol.archive import Opener, Sealer, SealingKeys, derive_sealing_keys, is_sealed, sealed_for
from protocol.archive.sealing import CHUNK_BYTES, ENVELOPE_BYTES, MAX_CHUNK_BYTES
from protocol.errors import Corrupt, Truncated, Unsupported, WireError

COLLECTOR = PrivateKey(b"k" * 32)
KEYS = derive_sealing_keys(b"s" * 32, b"a" * 32, COLLECTOR.public_key)
SEALED_CHUNK_BYTES = CHUNK_BYTES + 16


def seal(
    data: bytes, *, piece_bytes: int = 100_000, keys: SealingKeys = KEYS, to: PublicKey = COLLECTOR.public_key
) -> bytes:
    sealer = Sealer(keys, to)
    pieces = [sealer.update(data[start : start + piece_bytes]) for start in range(0, len(data), piece_bytes)]
    return b"".join([sealer.begin(), *pieces, sealer.finish()])


def open_sealed(data: bytes, *, piece_bytes: int = 100_000, key: PrivateKey = COLLECTOR) -> bytes:
    opener = Opener(key)
    pieces: list[bytes] = []
    for start in range(0, len(data), piece_bytes):
        pieces += opener.feed(data[start : start + piece_bytes])
    return b"".join([*pieces, opener.finish()])


LONG = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"rest"
SEALED = seal(LONG)


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_round_trip_at_and_around_the_length_of_a_chunk(length: int) -> None:
    data = LONG[:length]
    assert open_sealed(seal(data)) == data


def test_pieces_of_any_size_give_the_same() -> None:
    assert seal(LONG, piece_bytes=777) == SEALED
    assert open_sealed(SEALED, piece_bytes=777) == LONG
    assert open_sealed(seal(b"tiny"), piece_bytes=1) == b"tiny"


def test_the_content_key_is_in_a_plain_sealed_box() -> None:
    assert SealedBox(COLLECTOR).decrypt(SEALED[40:120]) == KEYS.content_key


def test_the_same_archive_seals_to_the_same_file_and_another_to_another() -> None:
    assert seal(LONG) == SEALED
    assert derive_sealing_keys(b"s" * 32, b"b" * 32, COLLECTOR.public_key) != KEYS
    assert derive_sealing_keys(b"t" * 32, b"a" * 32, COLLECTOR.public_key) != KEYS
    assert derive_sealing_keys(b"s" * 32, b"a" * 32, PrivateKey(b"o" * 32).public_key) != KEYS


def test_no_other_key_opens_it_and_the_file_says_whose_does() -> None:
    assert sealed_for(SEALED) == COLLECTOR.public_key
    with pytest.raises(Unsupported, match="sealed for the key"):
        open_sealed(SEALED, key=PrivateKey(b"o" * 32))


def test_nothing_of_the_content_shows() -> None:
    assert b"rest" not in SEALED
    assert LONG[:16] not in SEALED


def test_chunks_cannot_be_swapped_dropped_or_cut_off() -> None:
    start, size = ENVELOPE_BYTES, SEALED_CHUNK_BYTES
    first, second, rest = (
        SEALED[start : start + size],
        SEALED[start + size : start + 2 * size],
        SEALED[start + 2 * size :],
    )
    with pytest.raises(Corrupt, match="chunk 0 was changed or moved"):
        open_sealed(SEALED[:start] + second + first + rest)
    with pytest.raises(Corrupt, match="chunk 1 was changed or moved"):
        open_sealed(SEALED[:start] + first + rest)
    with pytest.raises(Truncated, match="before its last chunk"):
        open_sealed(SEALED[:start] + first + second)


@pytest.mark.parametrize("length", [0, 5, 8, 123, 124, 130, ENVELOPE_BYTES + SEALED_CHUNK_BYTES + 20, len(SEALED) - 1])
def test_a_beginning_is_truncated(length: int) -> None:
    with pytest.raises(Truncated):
        open_sealed(SEALED[:length])


def test_no_byte_of_a_small_sealed_file_can_change_unnoticed() -> None:
    sealed = seal(b"small")
    for offset in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            open_sealed(bytes(damaged))


def test_what_is_not_sealed_or_of_another_version_says_so() -> None:
    assert is_sealed(SEALED)
    assert not is_sealed(b"HGARCH\x00\x01")
    with pytest.raises(Corrupt, match="not a sealed archive"):
        open_sealed(b"HGARCH\x00\x01" + bytes(200))
    with pytest.raises(Unsupported, match="sealed format 0002"):
        open_sealed(b"HGSEAL\x00\x02" + SEALED[8:])
    with pytest.raises(Corrupt, match="chunks of"):
        open_sealed(SEALED[:120] + (MAX_CHUNK_BYTES + 1).to_bytes(4, "big") + SEALED[124:])


def test_the_keys_do_not_show_themselves() -> None:
    assert repr(KEYS) == str(KEYS) == "SealingKeys(<secret>)"
