import dataclasses

import pytest
from nacl.signing import SigningKey

from protocol import strict_cbor
from protocol.archive.receipt import Receipt, ReceiptStatement, sign_receipt, unsigned
from protocol.errors import Corrupt, Truncated, Unsupported, WireError

COLLECTOR = SigningKey(b"c" * 32)
COLLECTOR_KEY = bytes(COLLECTOR.verify_key)


def receipt() -> Receipt:
    return sign_receipt(statement(), lambda message: COLLECTOR.sign(message).signature)


def statement() -> ReceiptStatement:
    return ReceiptStatement(
        archive=b"a" * 32,
        size_bytes=1234,
        device=b"d" * 20,
        log=b"log-of-the-tests",
        number=7,
        held_size=5,
        held_root=b"r" * 32,
        received_at_ms=1_700_000_000_000,
        collector_key=COLLECTOR_KEY,
    )


def test_round_trip() -> None:
    assert Receipt.from_bytes(receipt().to_bytes()) == receipt()


def test_another_key_can_sign_what_it_states() -> None:
    other = SigningKey(b"x" * 32)
    moved = dataclasses.replace(unsigned(receipt()), collector_key=bytes(other.verify_key))
    assert sign_receipt(moved, lambda message: other.sign(message).signature).archive == receipt().archive
    assert unsigned(receipt()) == statement()


def test_it_covers_this_file_of_this_device_at_this_collector_and_no_other() -> None:
    def covers(
        *, archive: bytes = b"a" * 32, size_bytes: int = 1234, device: bytes = b"d" * 20, key: bytes = COLLECTOR_KEY
    ) -> bool:
        return receipt().covers(archive=archive, size_bytes=size_bytes, device=device, collector_key=key)

    assert covers()
    assert not covers(archive=b"b" * 32)
    assert not covers(size_bytes=1235)
    assert not covers(device=b"e" * 20)
    assert not covers(key=bytes(SigningKey(b"x" * 32).verify_key))


@pytest.mark.parametrize(
    "change",
    [
        {"archive": b"b" * 32},
        {"size_bytes": 1},
        {"device": b"e" * 20},
        {"received_at_ms": 1},
        {"log": b"another-log-here"},
        {"log": b"short"},
        {"number": 8},
        {"number": -1},
        {"held_size": 6},
        {"held_size": 0},
        {"held_root": bytes(32)},
        {"collector_key": bytes(SigningKey(b"x" * 32).verify_key)},
        {"signature": bytes(64)},
        {"signature": b"short"},
        {"archive": b"short"},
        {"size_bytes": -1},
    ],
)
def test_a_receipt_with_anything_changed_cannot_exist(change: dict[str, object]) -> None:
    values = {field.name: getattr(receipt(), field.name) for field in dataclasses.fields(Receipt)}
    with pytest.raises(ValueError, match=r"signed by|within|bytes, not|empty log"):
        Receipt(**{**values, **change})


def test_every_beginning_is_truncated_and_no_byte_can_change() -> None:
    data = receipt().to_bytes()
    for length in range(len(data)):
        with pytest.raises(Truncated):
            Receipt.from_bytes(data[:length])
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            Receipt.from_bytes(bytes(damaged))


def test_a_later_version_is_unsupported_and_a_wrong_type_corrupt() -> None:
    values = strict_cbor.decode(receipt().to_bytes(), strict_cbor.CborBounds(1024, 32, 1))
    assert isinstance(values, dict)
    with pytest.raises(Unsupported, match="version 3"):
        Receipt.from_bytes(strict_cbor.encode({**values, "version": 3}))
    with pytest.raises(Corrupt, match="int is expected"):
        Receipt.from_bytes(strict_cbor.encode({**values, "size_bytes": "many"}))
    with pytest.raises(Corrupt, match="unknown"):
        Receipt.from_bytes(strict_cbor.encode({**values, "more": 1}))
