import pytest

from protocol.binding import Binding, binding_statement, sign_binding
from tests.support.archives import BINDING, IDENTITY
from tests.support.wallets import personal_sign


def test_a_binding_is_the_same_bytes_every_time() -> None:
    assert sign_binding(IDENTITY, BINDING.archive_key) == BINDING


def test_a_binding_for_another_key_or_device_cannot_exist() -> None:
    with pytest.raises(ValueError, match="not signed by"):
        Binding(address=BINDING.address, archive_key=bytes(32), signature=BINDING.signature)
    with pytest.raises(ValueError, match="not signed by"):
        Binding(address=bytes(20), archive_key=BINDING.archive_key, signature=BINDING.signature)


@pytest.mark.parametrize("field", ["address", "archive_key", "signature"])
def test_a_field_of_the_wrong_length_is_named(field: str) -> None:
    values = {name: getattr(BINDING, name) for name in ("address", "archive_key", "signature")}
    with pytest.raises(ValueError, match=field):
        Binding(**{**values, field: b"short"})


@pytest.mark.parametrize("signature", [bytes(65), bytes(64) + b"\x1b", b"\xff" * 64 + b"\x1b", bytes(64) + b"\xff"])
def test_a_signature_that_fits_no_key_binds_nothing(signature: bytes) -> None:
    with pytest.raises(ValueError, match="not signed by"):
        Binding(address=BINDING.address, archive_key=BINDING.archive_key, signature=signature)


def test_a_binding_signed_as_a_wallet_signs_texts_is_none() -> None:
    statement = binding_statement(BINDING.address, BINDING.archive_key)
    device, key = BINDING.address.hex(), BINDING.archive_key.hex()
    sentence = f"Headgate device 0x{device} signs its archives with the Ed25519 key {key}."
    for text in (sentence, b"headgate binding 1\n" + statement.body, statement.body, statement.digest):
        signature = bytes.fromhex(personal_sign(IDENTITY, text)[2:])
        with pytest.raises(ValueError, match="not signed by"):
            Binding(address=BINDING.address, archive_key=BINDING.archive_key, signature=signature)
