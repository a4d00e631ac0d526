"""Group keys under RSA, judged by what real clients encrypted."""

import copy
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.errors import Corrupt
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.rsa import RsaKeyPair, RsaPublicKey
from tests.support.streamr_vectors import load_rsa_key_pair, load_vectors

VECTORS = load_vectors("rsa")
PRIVATE_PEM: str = VECTORS[0]["privateKeyPem"]
PUBLIC_PEM: str = VECTORS[0]["publicKeyPem"]


def test_what_real_clients_encrypted_opens_and_what_we_encrypt_too() -> None:
    assert len(VECTORS) == 9
    for vector in VECTORS:
        pair = load_rsa_key_pair(vector["privateKeyPem"])
        group_key = GroupKey("id", bytes.fromhex(vector["groupKeyHex"]))
        assert pair.decrypt("id", vector["encryptedGroupKeyHex"]) == group_key
        ours = RsaPublicKey(vector["publicKeyPem"]).encrypt(group_key)
        assert len(ours) == 1024
        assert pair.decrypt("id", ours) == group_key


def test_public_key_of_a_pair_is_written_as_real_clients_write_it() -> None:
    assert {load_rsa_key_pair(vector["privateKeyPem"]).public_key_pem for vector in VECTORS} == {
        vector["publicKeyPem"] for vector in VECTORS
    }


def test_public_key_in_one_long_line_is_taken() -> None:
    header, *body, footer, _ = PUBLIC_PEM.split("\n")
    one_line = f"{header}\n{''.join(body)}\n{footer}\n"
    encrypted = RsaPublicKey(one_line).encrypt(GroupKey("id", bytes(32)))
    assert load_rsa_key_pair(PRIVATE_PEM).decrypt("id", encrypted) == GroupKey("id", bytes(32))


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize(
    "pem",
    [
        "",
        PUBLIC_PEM.rstrip("\n"),
        " " + PUBLIC_PEM,
        PUBLIC_PEM.replace("A", "%"),
        PUBLIC_PEM.replace("\n", "\n\n" * 5_000, 1),
        PRIVATE_PEM,
        "-----BEGIN PUBLIC KEY-----\n\ud800\n-----END PUBLIC KEY-----\n",
        public_pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)),
        public_pem(ec.generate_private_key(ec.SECP256R1())),
    ],
    ids=[
        "empty",
        "no line end",
        "blank",
        "no base64",
        "too long",
        "private",
        "surrogate",
        "too small",
        "not RSA",
    ],
)
def test_text_that_is_no_acceptable_public_key_is_corrupt(pem: str) -> None:
    with pytest.raises(Corrupt):
        RsaPublicKey(pem)


@pytest.mark.parametrize("encrypted_hex", ["", "00", "zz", "00" * 512, "ff" * 512, "00" * 100_000])
def test_what_was_not_encrypted_for_us_is_corrupt(encrypted_hex: str) -> None:
    with pytest.raises(Corrupt):
        load_rsa_key_pair(PRIVATE_PEM).decrypt("id", encrypted_hex)


def test_nothing_about_a_key_pair_shows_its_key() -> None:
    pair = load_rsa_key_pair(PRIVATE_PEM)
    assert repr(pair) == str(pair) == "RsaKeyPair(4096 bits)"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private key"):
            leak(pair)


@pytest.mark.slow
def test_new_key_pair_has_4096_bits_and_works() -> None:
    pair = RsaKeyPair.generate()
    assert repr(pair) == "RsaKeyPair(4096 bits)"
    encrypted = RsaPublicKey(pair.public_key_pem).encrypt(GroupKey("id", bytes(32)))
    assert pair.decrypt("id", encrypted) == GroupKey("id", bytes(32))
