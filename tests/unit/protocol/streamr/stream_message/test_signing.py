"""Signatures of stream messages, judged by those that real clients made."""

from pathlib import Path
from typing import Any

import pytest

from protocol.ethereum.hashing import eip191_digest
from protocol.ethereum.secp256k1 import Backend
from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import (
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.stream_message.signing import (
    Verdict,
    Verifier,
    recover_signer,
    sign_message,
    signed_payload,
    verify,
)
from tests.support.curve_backends import on_every_backend
from tests.support.streamr_vectors import load_vectors
from tests.support.wallets import personal_sign

VECTORS = load_vectors("signatures")
ETH_VECTORS = [vector for vector in VECTORS if vector["signatureType"] == 2]
LEGACY_VECTORS = [vector for vector in VECTORS if vector["signatureType"] == 1]
QUIRKY_VECTORS = [vector for vector in VECTORS if "signature_ethers4" in vector]
SECRET = "23bead9b499af21c4c16e4511b3b6b08c3e22e76e0591f5ab5ba8d4c3a5b1820"
ADDRESS = "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5"


def message_of(vector: dict[str, Any], **changes: Any) -> StreamMessage:
    """The message of a vector, with its signature."""
    fields = vector["fields"]
    prev, new_key = fields["prevMsgRef"], fields["newGroupKeySerialized"]
    parts: dict[str, Any] = {
        "message_id": MessageID(
            fields["streamId"],
            fields["streamPartition"],
            fields["timestamp"],
            fields["sequenceNumber"],
            fields["publisherId"],
            fields["msgChainId"],
        ),
        "prev_msg_ref": MessageRef(prev[0], prev[1]) if prev else None,
        "message_type": MessageType(fields["messageType"]),
        "encryption_type": EncryptionType(fields["encryptionType"]),
        "group_key_id": fields["groupKeyId"],
        "new_group_key": EncryptedGroupKey(new_key) if new_key else None,
        "content": fields["content"],
        "signature_type": SignatureType(vector["signatureType"]),
        "signature": vector["signature"],
    }
    return StreamMessage(**{**parts, **changes})


def a_message(**changes: Any) -> StreamMessage:
    parts: dict[str, Any] = {"message_id": MessageID("stream-id", 0, 2, 0, ADDRESS, "chain"), "content": "{}"}
    return StreamMessage(**{**parts, **changes})


def a_signed_message() -> StreamMessage:
    return sign_message(a_message(), Signer(bytes.fromhex(SECRET)))


def with_s_negated(signature: str) -> str:
    """The same signature in its other form: s is n - s, and v the other of the two."""
    order = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
    s, v = int(signature[66:130], 16), int(signature[130:], 16)
    return f"{signature[:66]}{order - s:064x}{55 - v:x}"


def test_every_vector_is_there() -> None:
    assert (len(VECTORS), len(ETH_VECTORS), len(LEGACY_VECTORS), len(QUIRKY_VECTORS)) == (54, 48, 6, 6)


@on_every_backend
def test_we_sign_exactly_as_real_clients_do(backend: Backend) -> None:
    for vector in ETH_VECTORS:
        unsigned = message_of(vector, signature_type=SignatureType.NONE, signature=None)
        signed = sign_message(unsigned, Signer(bytes.fromhex(vector["privateKey"]), backend=backend))
        assert signed == message_of(vector), vector["note"]


@on_every_backend
def test_what_real_clients_signed_is_verified(backend: Backend) -> None:
    for vector in VECTORS:
        message = message_of(vector)
        assert recover_signer(message, backend=backend) == vector["recovered"], vector["note"]
        assert verify(message, backend=backend) is Verdict.VERIFIED, vector["note"]


def test_signed_messages_are_written_as_real_clients_write_them_in_every_version() -> None:
    written = 0
    for vector in ETH_VECTORS:
        unsigned = message_of(vector, signature_type=SignatureType.NONE, signature=None)
        signed = sign_message(unsigned, Signer(bytes.fromhex(vector["privateKey"])))
        for version, serialized in vector["serialized"].items():
            assert signed.serialize(int(version)) == serialized, vector["note"]
            assert verify(parse_stream_message(serialized)) is Verdict.VERIFIED, vector["note"]
            written += 1
    assert written == 127


@on_every_backend
def test_old_clients_that_count_utf16_units_are_verified(backend: Backend) -> None:
    for vector in QUIRKY_VECTORS:
        message = message_of(vector, signature=vector["signature_ethers4"])
        assert verify(message, backend=backend) is Verdict.VERIFIED, vector["note"]


def test_payload_and_digest_are_those_of_real_clients() -> None:
    for vector in ETH_VECTORS:
        payload = signed_payload(message_of(vector))
        assert payload == vector["payload"], vector["note"]
        assert eip191_digest(payload.encode()).hex() == vector["eip191_digest"], vector["note"]
    for vector in QUIRKY_VECTORS:
        digest = eip191_digest(vector["payload"].encode(), claimed_length=vector["utf16_length"])
        assert digest.hex() == vector["digest_ethers4"], vector["note"]


@on_every_backend
def test_odd_signatures_get_the_verdict_of_the_reference(backend: Backend) -> None:
    vectors = load_vectors("signature_verify")
    assert len(vectors) == 15
    for vector in vectors:
        message = message_with_payload(vector["payload"], vector["address"], vector["signature"])
        assert bool(verify(message, backend=backend)) is vector["verify"]["protocol@9.1.2"], vector["note"]


def message_with_payload(payload: str, address: str, signature: str) -> StreamMessage:
    """A message whose signed payload is the given text, up to the address in its middle."""
    _, _, content = payload.partition(ADDRESS)
    return a_message(
        message_id=MessageID("stream-id", 0, 156404633216, 83, address, ""),
        content=content,
        signature_type=SignatureType.ETH,
        signature=signature,
    )


@on_every_backend
def test_legacy_signature_in_the_form_of_the_documents_is_verified(backend: Backend) -> None:
    signer = Signer(bytes.fromhex(SECRET), backend=backend)
    message = a_message(
        message_id=MessageID("stream-id", 7, 2, 0, ADDRESS, "chain"),
        signature_type=SignatureType.ETH_LEGACY,
        signature=personal_sign(signer, f"stream-id72{ADDRESS}{{}}"),
    )
    assert verify(message, backend=backend) is Verdict.VERIFIED
    assert recover_signer(message, backend=backend) == ADDRESS


@on_every_backend
def test_signature_by_another_key_is_foreign_and_its_maker_is_named(backend: Backend) -> None:
    other = Signer(b"\x01" * 32, backend=backend)
    message = a_message(signature_type=SignatureType.ETH, signature=personal_sign(other, signed_payload(a_message())))
    assert verify(message, backend=backend) is Verdict.FOREIGN
    assert recover_signer(message, backend=backend) == other.address


@pytest.mark.parametrize("v", ["00", "01", "1a", "1d", "ff"])
@on_every_backend
def test_v_must_be_27_or_28(backend: Backend, v: str) -> None:
    signed = a_signed_message()
    odd = signed.replace(signature=f"{signed.signature or ''}"[:-2] + v)
    assert verify(odd, backend=backend) is Verdict.MALFORMED
    assert Verifier(backend=backend).verify(odd) is Verdict.MALFORMED


@pytest.mark.parametrize(
    "signature",
    [None, "", "0x", "0X" + "11" * 65, "0x" + "11" * 64, " " + "1" * 129, "é" * 130, "0x0x" + "1" * 128],
)
def test_what_is_not_65_bytes_of_hex_is_malformed(signature: str | None) -> None:
    message = a_message(signature_type=SignatureType.ETH, signature=signature)
    assert verify(message) is Verdict.MALFORMED
    assert recover_signer(message) is None


@on_every_backend
def test_r_and_s_that_no_key_can_make_are_foreign(backend: Backend) -> None:
    for r_and_s in ("00" * 64, "ff" * 64, "00" * 32 + "11" * 32, "11" * 32 + "00" * 32):
        message = a_message(signature_type=SignatureType.ETH, signature=f"0x{r_and_s}1b")
        assert verify(message, backend=backend) is Verdict.FOREIGN
        assert recover_signer(message, backend=backend) is None


def test_unsigned_message_is_not_verified_even_if_a_signature_stands_there() -> None:
    assert verify(a_message()) is Verdict.UNSIGNED
    assert verify(a_signed_message().replace(signature_type=SignatureType.NONE)) is Verdict.UNSIGNED
    assert recover_signer(a_message()) is None


def test_eth_signature_that_came_down_to_version_29_cannot_be_checked() -> None:
    message = a_message(
        message_id=MessageID("stream-id", 0, 2, 0, ADDRESS),
        version=29,
        legacy=LegacyOffsets(offset=2),
        signature_type=SignatureType.ETH,
        signature="0x" + "11" * 64 + "1b",
    )
    assert verify(message) is Verdict.UNCHECKABLE
    assert recover_signer(message) is None


def test_text_with_a_lone_surrogate_is_not_verified_and_no_error() -> None:
    message = a_message(content="\ud800", signature_type=SignatureType.ETH, signature="0x" + "11" * 64 + "1b")
    assert verify(message) is Verdict.FOREIGN


def test_only_the_verified_verdict_is_true() -> None:
    assert [verdict for verdict in Verdict if verdict] == [Verdict.VERIFIED]


def test_message_of_another_publisher_is_not_signed() -> None:
    with pytest.raises(ValueError, match="publisher_id"):
        sign_message(a_message(), Signer(b"\x01" * 32))


def test_legacy_message_is_not_signed() -> None:
    message = a_message(message_id=MessageID("stream-id", 0, 2, 0, ADDRESS), version=29, legacy=LegacyOffsets(offset=2))
    with pytest.raises(ValueError, match="version"):
        sign_message(message, Signer(bytes.fromhex(SECRET)))


@on_every_backend
def test_verifier_gives_the_same_verdict_before_and_after_it_knows_the_key(backend: Backend) -> None:
    signed = a_signed_message()
    changed = signed.replace(content="[]")
    upper_s = signed.replace(signature=with_s_negated(signed.signature or ""))
    for message, verdict in (
        (signed, Verdict.VERIFIED),
        (changed, Verdict.FOREIGN),
        (upper_s, Verdict.VERIFIED),
    ):
        verifier = Verifier(backend=backend)
        assert verifier.verify(message) is verdict
        verifier.verify(signed)
        assert verifier.verify(message) is verdict


@on_every_backend
def test_verifier_never_asks_which_v_it_is(backend: Backend) -> None:
    signed = a_signed_message()
    text = signed.signature or ""
    flipped = signed.replace(signature=f"{text[:-2]}{55 - int(text[-2:], 16):x}")
    assert verify(flipped, backend=backend) is Verdict.FOREIGN
    verifier = Verifier(backend=backend)
    assert verifier.verify(flipped) is Verdict.VERIFIED
    assert verifier.verify(flipped) is Verdict.VERIFIED


def test_verifier_agrees_on_every_vector() -> None:
    verifier = Verifier()
    for vector in VECTORS * 2:
        assert verifier.verify(message_of(vector)) is Verdict.VERIFIED, vector["note"]
    assert verifier.verify(a_message()) is Verdict.UNSIGNED


def test_verifier_forgets_the_first_key_it_learned_when_it_knows_enough() -> None:
    verifier = Verifier(max_known_keys=1)
    for secret in (b"\x01" * 32, b"\x02" * 32, b"\x01" * 32):
        signer = Signer(secret)
        message = a_message(message_id=MessageID("stream-id", 0, 2, 0, signer.address, "chain"))
        assert verifier.verify(sign_message(message, signer)) is Verdict.VERIFIED


def test_worked_example_of_the_documents_is_verified() -> None:
    documents = Path(__file__).parents[5] / "docs"
    lines = [line for path in documents.rglob("*.md") for line in path.read_text().splitlines()]
    examples = [line for line in lines if line.startswith('[32,["0x1a642f0e3c3af545e7acbd38b07251b3990914f1/boiler"')]
    assert examples
    for example in examples:
        message = parse_stream_message(example)
        assert verify(message) is Verdict.VERIFIED
        assert f"    text       {signed_payload(message)}" in lines
        assert f"    digest     {eip191_digest(signed_payload(message).encode()).hex()}" in lines
