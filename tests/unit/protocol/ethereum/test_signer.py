"""The signer signs plain texts as wallets do, and never shows its key."""

import copy
import pickle
import traceback

import pytest

from protocol.ethereum.secp256k1 import Backend
from protocol.ethereum.signer import Signer
from tests.unit.protocol.streamr.backends import on_every_backend
from tests.unit.protocol.streamr.vectors import load_vectors

SECRET = bytes(range(100, 132))
CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


@on_every_backend
def test_plain_texts_are_signed_as_real_clients_sign_them(backend: Backend) -> None:
    vectors = load_vectors("sign_plain")
    assert len(vectors) == 16
    for vector in vectors:
        signer = Signer.from_hex(vector["privateKey"], backend=backend)
        assert signer.sign(vector["data"]) == vector["signature"]
        assert signer.sign(vector["data"].encode()) == vector["signature"]
        assert signer.address == vector["address"].lower()


@on_every_backend
def test_nothing_about_a_signer_shows_its_key(backend: Backend) -> None:
    signer = Signer(SECRET, backend=backend)
    for shown in (
        repr(signer),
        str(signer),
        f"{signer}",
        repr(vars(Signer)),
        repr(signer._key),
        str(signer._key),
    ):
        assert SECRET.hex() not in shown
        assert repr(SECRET) not in shown
    assert signer.address in repr(signer)


@on_every_backend
def test_signer_refuses_to_be_copied_or_pickled(backend: Backend) -> None:
    signer = Signer(SECRET, backend=backend)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private key"):
            leak(signer)


@pytest.mark.parametrize(
    "secret", [b"", SECRET[:31], SECRET + b"\x01", bytes(32), CURVE_ORDER.to_bytes(32), b"\xff" * 32]
)
@on_every_backend
def test_secret_that_is_no_key_is_refused_without_telling_it(backend: Backend, secret: bytes) -> None:
    with pytest.raises(ValueError, match="private key") as caught:
        Signer(secret, backend=backend)
    text = "".join(traceback.format_exception(caught.value))
    assert len(secret) == 0 or (secret.hex() not in text and str(int.from_bytes(secret)) not in text.split())


@pytest.mark.parametrize("secret", ["zz" * 32, "é", "0x" + "1" * 63, "11" * 31])
def test_text_that_is_no_key_is_refused_without_telling_it(secret: str) -> None:
    with pytest.raises(ValueError, match="private key") as caught:
        Signer.from_hex(secret)
    assert secret.removeprefix("0x") not in str(caught.value)


def test_key_may_be_written_with_or_without_0x() -> None:
    assert Signer.from_hex("0x" + SECRET.hex()).address == Signer.from_hex(SECRET.hex().upper()).address
