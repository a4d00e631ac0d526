"""Laws of signatures, encryption and the hot path, for any message at all."""

import base64
import contextlib
import functools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.ethereum.coincurve_backend import CoincurveBackend
from protocol.ethereum.eth_keys_backend import EthKeysBackend
from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.encryption import Decrypted, decrypt, decrypt_message, encrypt, encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.rsa import RsaKeyPair, RsaPublicKey
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.json_text import encode_json
from protocol.streamr.stream_message import (
    EncryptedGroupKey,
    EncryptionType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.stream_message.chain_writer import ChainWriter
from protocol.streamr.stream_message.signing import Verdict, Verifier, recover_signer, sign_message, verify
from tests.effort import effort
from tests.support.streamr_vectors import load_rsa_key_pair, load_vectors

SIGNER = Signer(b"\x01" * 32)
VERIFIER = Verifier()

texts = st.text(st.characters(exclude_categories=["Cs"]))
filled_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
counts = st.integers(0, 2**53 - 2)
refs = st.builds(MessageRef, counts, counts)
json_texts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
).map(encode_json)
keys_of_32_bytes = st.binary(min_size=32, max_size=32)
group_keys = st.builds(GroupKey, filled_texts.filter(lambda name: "---BEGIN" not in name), keys_of_32_bytes)
encrypted_keys = st.builds(EncryptedGroupKey.build, texts, st.text("0123456789abcdef"))


@st.composite
def messages(draw: st.DrawFn) -> StreamMessage:
    """An unsigned message of the signer's, of any version that can be signed."""
    prev, ref = sorted(draw(st.lists(refs, min_size=2, max_size=2, unique=True)))
    version = draw(st.sampled_from([30, 31, 32]))
    return StreamMessage(
        message_id=MessageID(
            draw(filled_texts), draw(counts), ref.timestamp, ref.sequence_number, SIGNER.address, draw(texts)
        ),
        prev_msg_ref=draw(st.none() | st.just(prev)),
        content=draw(filled_texts),
        new_group_key=draw(st.none() | encrypted_keys) if version == 32 else None,
        version=version,
    )


@settings(deadline=None)
@given(messages())
def test_signed_message_is_verified_after_any_journey(message: StreamMessage) -> None:
    received = parse_stream_message(sign_message(message, SIGNER).serialize())
    assert verify(received) is Verdict.VERIFIED
    assert VERIFIER.verify(received) is Verdict.VERIFIED
    assert recover_signer(received) == SIGNER.address


def other_than(value: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.filter(lambda other: other != value)


@settings(deadline=None)
@given(messages(), st.data())
def test_changing_any_signed_field_breaks_the_signature(message: StreamMessage, data: st.DataObject) -> None:
    signed = sign_message(message, SIGNER)
    field = data.draw(st.sampled_from(["stream_id", "msg_chain_id", "publisher_id", "content", "prev_msg_ref"]))
    tampered = tamper(signed, field, data)
    if signed_text(tampered) != signed_text(signed):  # fields are joined without separators
        assert verify(tampered) is Verdict.FOREIGN
        assert VERIFIER.verify(tampered) is Verdict.FOREIGN


def tamper(message: StreamMessage, field: str, data: st.DataObject) -> StreamMessage:
    if field == "content":
        return message.replace(content=data.draw(other_than(message.content, filled_texts)))
    if field == "prev_msg_ref":
        return message.replace(prev_msg_ref=None if message.prev_msg_ref else MessageRef(0, 0))
    old = getattr(message.message_id, field)
    changed = message.message_id._replace(**{field: data.draw(other_than(old, filled_texts))})
    return message.replace(message_id=changed)


def signed_text(message: StreamMessage) -> str:
    stream_id, partition, timestamp, sequence, publisher, chain = message.message_id
    prev = "".join(map(str, message.prev_msg_ref or ()))
    new_key = message.new_group_key.serialized if message.new_group_key else ""
    where = f"{stream_id}{partition}{timestamp}{sequence}{publisher.lower()}{chain}"
    return f"{where}{prev}{message.content}{new_key}"


@settings(deadline=None)
@given(messages(), st.integers(0, 64 * 8 - 1))
def test_changing_any_bit_of_r_or_s_breaks_the_signature(message: StreamMessage, bit: int) -> None:
    signed = sign_message(message, SIGNER)
    raw = int((signed.signature or "")[2:], 16) ^ (1 << (bit + 8))
    assert not verify(signed.replace(signature=f"0x{raw:0130x}"))


@settings(deadline=None)
@given(st.text(), st.sampled_from(SignatureType))
def test_any_text_as_a_signature_gets_a_verdict(signature: str, signature_type: SignatureType) -> None:
    message = StreamMessage(
        MessageID("stream", 0, 1, 0, SIGNER.address, ""),
        "{}",
        signature_type=signature_type,
        signature=signature,
    )
    assert not verify(message)
    assert not VERIFIER.verify(message)


@settings(deadline=None, max_examples=effort(test=8, soak=500))
@given(st.binary(min_size=32, max_size=32), st.integers(1, 2**256 - 2**129))
def test_backends_agree_on_any_key_and_digest(digest: bytes, secret: int) -> None:
    fast = CoincurveBackend().load_private_key(secret.to_bytes(32))
    portable_backend = EthKeysBackend(pure_python=True)
    portable = portable_backend.load_private_key(secret.to_bytes(32))
    signature = fast.sign(digest)
    assert signature == portable.sign(digest)
    assert portable_backend.recover(digest, signature) == CoincurveBackend().recover(digest, signature)


@settings(deadline=None, max_examples=effort(test=10, soak=500))
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64), st.sampled_from([27, 28]))
def test_backends_agree_on_any_signature(digest: bytes, r_and_s: bytes, v: int) -> None:
    signature = r_and_s + bytes([v])
    portable = EthKeysBackend(pure_python=True)
    assert portable.recover(digest, signature) == CoincurveBackend().recover(digest, signature)


@settings(deadline=None)
@given(
    filled_texts,
    refs,
    st.none() | refs,
    st.none() | filled_texts,
    st.none() | encrypted_keys,
    filled_texts,
    counts,
    texts,
)
def test_hot_path_writes_the_bytes_of_the_general_encoder(
    content: str,
    ref: MessageRef,
    prev: MessageRef | None,
    group_key_id: str | None,
    new_group_key: EncryptedGroupKey | None,
    stream_id: str,
    stream_partition: int,
    msg_chain_id: str,
) -> None:
    prev = prev if prev is not None and prev < ref else None
    general = StreamMessage(
        message_id=MessageID(
            stream_id, stream_partition, ref.timestamp, ref.sequence_number, SIGNER.address, msg_chain_id
        ),
        prev_msg_ref=prev,
        content=content,
        encryption_type=EncryptionType.NONE if group_key_id is None else EncryptionType.AES,
        group_key_id=group_key_id,
        new_group_key=new_group_key,
    )
    writer = ChainWriter(SIGNER, stream_id=stream_id, stream_partition=stream_partition, msg_chain_id=msg_chain_id)
    written = writer.write(content, ref, prev, group_key_id=group_key_id, new_group_key=new_group_key)
    assert written == sign_message(general, SIGNER).serialize().encode()


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=40).map(base64.b64encode), max_size=4),
    refs,
    st.none() | refs,
    st.tuples(filled_texts, texts),
    filled_texts,
    texts,
)
def test_a_run_is_its_messages_written_one_by_one(
    bodies: list[bytes],
    ref: MessageRef,
    prev: MessageRef | None,
    around: tuple[str, str],
    stream_id: str,
    msg_chain_id: str,
) -> None:
    prev = prev if prev is not None and prev < ref else None
    writer = ChainWriter(SIGNER, stream_id=stream_id, msg_chain_id=msg_chain_id)
    run_refs = [MessageRef(ref.timestamp, ref.sequence_number % 2**50 + at) for at in range(len(bodies))]
    prev = None if prev is not None and run_refs and prev >= run_refs[0] else prev
    contents = [body.decode().join(around) for body in bodies]
    one_by_one = [*map(writer.write, contents, run_refs, [prev, *run_refs])]
    assert not bodies or writer.write_run([(around, body) for body in bodies], run_refs[0], prev) == one_by_one


@settings(deadline=None)
@given(st.binary(), group_keys, st.binary(min_size=16, max_size=16))
def test_what_was_encrypted_is_decrypted(plaintext: bytes, key: GroupKey, iv: bytes) -> None:
    assert decrypt(encrypt(plaintext, key, iv=iv), key) == plaintext


@settings(deadline=None)
@given(json_texts, group_keys, st.none() | group_keys, st.sampled_from([31, 32]), st.randoms())
def test_encrypted_message_gives_back_content_and_next_key(
    content: str, key: GroupKey, next_key: GroupKey | None, version: int, random: Any
) -> None:
    if version == 31 and next_key is not None:
        next_key = GroupKey("", next_key.key)
    message = StreamMessage(MessageID("stream", 0, 1), content, version=version)
    encrypted = encrypt_message(message, key, random.randbytes, next_key=next_key)
    assert decrypt_message(encrypted, key) == Decrypted(content, next_key)


@settings(deadline=None)
@given(st.text(), group_keys)
def test_any_text_decrypts_or_is_a_wire_error(text: str, key: GroupKey) -> None:
    with contextlib.suppress(WireError):
        decrypt(text, key)


@functools.cache
def rsa_key_pair() -> RsaKeyPair:
    return load_rsa_key_pair(load_vectors("rsa")[0]["privateKeyPem"])


@settings(deadline=None, max_examples=effort(test=4, soak=200))
@given(group_keys)
def test_group_key_comes_through_rsa(key: GroupKey) -> None:
    encrypted = RsaPublicKey(rsa_key_pair().public_key_pem).encrypt(key)
    assert rsa_key_pair().decrypt(key.group_key_id, encrypted) == key


@settings(deadline=None)
@given(st.text() | st.binary().map(bytes.hex))
def test_any_text_opens_with_rsa_or_is_a_wire_error(text: str) -> None:
    with contextlib.suppress(WireError):
        rsa_key_pair().decrypt("id", text)
