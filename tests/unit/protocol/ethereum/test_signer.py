"""The signer signs as wallets do, each purpose by its own function, and never shows its key."""

import copy
import json
import pickle
import traceback
from pathlib import Path

import pytest

from protocol.ethereum.hashing import keccak256
from protocol.ethereum.login_challenge import challenge_text
from protocol.ethereum.secp256k1 import Backend
from protocol.ethereum.signer import Signer
from protocol.ethereum.statement import Statement
from tests.support.curve_backends import on_every_backend
from tests.support.streamr_vectors import load_vectors
from tests.support.wallets import personal_sign

SECRET = bytes(range(100, 132))
ADDRESS = Signer(SECRET).address
VECTORS = Path(__file__).parents[3] / "vectors"
CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


@on_every_backend
def test_plain_texts_would_be_signed_as_real_clients_sign_them(backend: Backend) -> None:
    vectors = load_vectors("sign_plain")
    assert len(vectors) == 16
    for vector in vectors:
        signer = Signer(bytes.fromhex(vector["privateKey"]), backend=backend)
        assert personal_sign(signer, vector["data"]) == vector["signature"]
        assert signer.address == vector["address"].lower()


@pytest.mark.parametrize(
    "payload",
    [
        "",
        ADDRESS,
        f"stream{ADDRESS}chain{{}}",
        f"stream/0x1{ADDRESS[2:]}",
        f"stream01700000000000{'0x' + '1' * 40}chain{{}}",
        challenge_text(ADDRESS, "a" * 30),
    ],
)
def test_what_is_no_payload_of_this_publisher_is_not_signed_as_a_message(payload: str) -> None:
    with pytest.raises(ValueError, match="not the payload of a message"):
        Signer(SECRET).sign_message(payload)


def test_payloads_are_signed_also_where_the_stream_is_named_after_the_publisher() -> None:
    signer = Signer(SECRET)
    payload = f"{ADDRESS}/boiler0170000000000000{ADDRESS}chain{{}}"
    assert signer.sign_message(payload) == personal_sign(signer, payload)


def test_statements_are_signed_as_other_libraries_sign_them() -> None:
    vectors = json.loads((VECTORS / "statements" / "statements.json").read_text())
    assert len(vectors) == 2
    for vector in vectors:
        statement = Statement(vector["kind"], bytes.fromhex(vector["body"]))
        assert statement.digest.hex() == vector["digest"] == keccak256(bytes.fromhex(vector["hashed"])).hex()
        assert Signer(bytes.fromhex(vector["secret"])).sign_statement(statement).hex() == vector["signature"]


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
