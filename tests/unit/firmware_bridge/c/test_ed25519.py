"""The boot loader's Ed25519 and SHA-512 against libsodium, hashlib and the examples of RFC 8032."""

import hashlib
import random

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from tests.effort import seeds
from tests.support.boot_library import ed25519_verify, sha512
from tests.vectors import load_vectors

pytestmark = pytest.mark.needs("gcc", "build-essential")

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
RFC_8032 = load_vectors("firmware/rfc8032.json")


def libsodium_verifies(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        VerifyKey(key).verify(message, signature)
    except BadSignatureError:
        return False
    return True


def signed(seed: int) -> tuple[bytes, bytes, bytes]:
    chance = random.Random(seed)
    signer, message = SigningKey(chance.randbytes(32)), chance.randbytes(chance.randrange(300))
    return bytes(signer.verify_key), signer.sign(message).signature, message


def flipped(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) * 8)
    return bytes(byte ^ (1 << place % 8 if index == place // 8 else 0) for index, byte in enumerate(data))


@pytest.mark.parametrize("vector", RFC_8032, ids=[vector["name"] for vector in RFC_8032])
def test_the_examples_of_the_rfc_verify(vector: dict[str, str]) -> None:
    key, message, signature = (bytes.fromhex(vector[name]) for name in ("public_key", "message", "signature"))
    assert ed25519_verify(key, signature, message)
    assert not ed25519_verify(key, signature, message + b"\0")


def test_what_libsodium_signs_verifies_and_nothing_close_to_it_does() -> None:
    chance = random.Random(1)
    for seed in seeds(test=30, soak=2_000):
        key, signature, message = signed(seed)
        assert ed25519_verify(key, signature, message)
        assert not ed25519_verify(key, flipped(signature, chance), message)
        assert not ed25519_verify(key, signature, flipped(message + b"\0", chance))
        another = flipped(key, chance)
        assert ed25519_verify(another, signature, message) == libsodium_verifies(another, signature, message)


def test_the_prefix_is_part_of_what_is_signed_wherever_it_ends() -> None:
    key, signature, message = signed(3)
    for cut in (0, 1, len(message)):
        assert ed25519_verify(key, signature, message[cut:], prefix=message[:cut])
    assert not ed25519_verify(key, signature, message, prefix=b"x")


def test_a_signature_has_one_form_only() -> None:
    for seed in seeds(test=10, soak=500):
        key, signature, message = signed(seed)
        s = int.from_bytes(signature[32:], "little")
        for again in range(s + ORDER, 2**256, ORDER):  # the same number by the order, up to what fits
            assert not ed25519_verify(key, signature[:32] + again.to_bytes(32, "little"), message)
        assert not ed25519_verify(key, signature[:32] + ORDER.to_bytes(32, "little"), message)


def test_a_key_that_is_no_point_or_not_in_its_one_form_verifies_nothing() -> None:
    _, signature, message = signed(4)
    for y in range(PRIME, 2**255):  # written as themselves and not as what they stand for
        assert not ed25519_verify(y.to_bytes(32, "little"), signature, message)
    no_points = [y for y in range(2, 60) if not _is_on_curve(y)]
    assert no_points
    for y in no_points:
        assert not ed25519_verify(y.to_bytes(32, "little"), signature, message)
    neutral = (1).to_bytes(32, "little")
    fits_any_message = neutral + bytes(32)  # for a key that stands for the neutral point, were it let in
    assert not ed25519_verify((PRIME + 1).to_bytes(32, "little"), fits_any_message, message)
    minus_zero = (1 | 1 << 255).to_bytes(32, "little")
    assert not ed25519_verify(minus_zero, fits_any_message, message)


def _is_on_curve(y: int) -> bool:
    d = -121665 * pow(121666, -1, PRIME)
    square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    return pow(square, (PRIME - 1) // 2, PRIME) in (0, 1)


@pytest.mark.parametrize("size_bytes", [0, 1, 111, 112, 113, 127, 128, 129, 239, 240, 1000])
def test_sha512_is_that_of_hashlib_in_one_piece_or_many(size_bytes: int) -> None:
    data = random.Random(size_bytes).randbytes(size_bytes)
    expected = hashlib.sha512(data).digest()
    assert sha512(data) == expected
    assert sha512(*(data[start : start + 7] for start in range(0, size_bytes, 7))) == expected
