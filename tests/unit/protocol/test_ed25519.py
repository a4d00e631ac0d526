import pytest
from nacl.signing import SigningKey

from protocol.ed25519 import check_signature

KEY = SigningKey(b"k" * 32)
SIGNATURE = KEY.sign(b"message").signature


def test_only_the_signature_of_this_message_by_this_key_passes() -> None:
    check_signature("note", bytes(KEY.verify_key), b"message", SIGNATURE)
    for key, message, signature in (
        (bytes(SigningKey(b"x" * 32).verify_key), b"message", SIGNATURE),
        (bytes(KEY.verify_key), b"another", SIGNATURE),
        (bytes(KEY.verify_key), b"message", bytes(64)),
    ):
        with pytest.raises(ValueError, match="the note is not signed by the key it names"):
            check_signature("note", key, message, signature)
    with pytest.raises(ValueError, match="signature of 3 bytes"):
        check_signature("note", bytes(KEY.verify_key), b"message", b"sig")
