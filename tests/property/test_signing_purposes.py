"""What a key signs for one purpose is worth nothing for another, whatever text a node chooses."""

import contextlib
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from protocol.binding import Binding, binding_statement
from protocol.errors import WireError
from protocol.ethereum import Signer, Statement, address_of, default_backend, eip191_digest
from protocol.ethereum.login_challenge import TOKEN_CHARACTERS, challenge_text, is_challenge
from protocol.shipping import ClaimStatement, UploadClaim, sign_claim
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import SignatureType, StreamMessage
from protocol.streamr.stream_message.signing import signed_payload, verify
from tests.effort import effort
from tests.support.device_logs import log_entry

SIGNER = Signer(bytes(range(50, 82)))
ADDRESS = SIGNER.address
ATTACKER_KEY = SigningKey(b"\x66" * 32)
ATTACKER_BINDING = binding_statement(bytes.fromhex(ADDRESS[2:]), bytes(ATTACKER_KEY.verify_key))
EXAMPLES = effort(test=50, soak=20_000)

CHALLENGE = challenge_text(ADDRESS, "a" * TOKEN_CHARACTERS)
TOKENS = st.text("0123456789abcdefxABCDEF", min_size=TOKEN_CHARACTERS, max_size=TOKEN_CHARACTERS)
CHALLENGES = TOKENS.map(lambda token: challenge_text(ADDRESS, token)) | TOKENS.map(
    lambda token: challenge_text(ADDRESS, token).replace(f" for address {ADDRESS}", "")
)
PAYLOADS = st.builds(
    lambda stream, number, chain, content: f"{stream}{number}{ADDRESS}{chain}{content}",
    st.text(min_size=1, max_size=20) | st.just(CHALLENGE),
    st.integers(min_value=0, max_value=10**17),
    st.text(max_size=20),
    st.text(min_size=1, max_size=50),
)
STATEMENTS = st.sampled_from(
    [
        f"headgate binding 1\n{ATTACKER_BINDING.body!r}",
        ATTACKER_BINDING.body.decode("latin-1"),
        f"Headgate device {ADDRESS} signs its archives with the Ed25519 key {bytes(ATTACKER_KEY.verify_key).hex()}.",
        "\x19\x00" + ATTACKER_BINDING.body.decode("latin-1"),
        "headgate claim 3\n",
    ]
)
PARTS = st.sampled_from([CHALLENGE, CHALLENGE[:-TOKEN_CHARACTERS], ADDRESS, "0", "\n\n", "{}", "This is a challenge"])
CHOSEN = st.one_of(st.text(max_size=300), CHALLENGES, PAYLOADS, STATEMENTS, st.lists(PARTS, max_size=6).map("".join))


@settings(max_examples=EXAMPLES)
@given(text=CHOSEN)
def test_no_text_of_a_node_gives_a_binding_a_message_or_a_claim(text: str) -> None:
    try:
        signature = SIGNER.sign_challenge(text)
    except ValueError:
        assert not is_challenge(text, ADDRESS)
        return
    assert not _binds(signature)
    assert not _claims(signature)
    assert not [message for message in _messages_that_say(text, signature) if verify(message)]


@settings(max_examples=EXAMPLES)
@given(text=CHALLENGES | PAYLOADS | CHOSEN)
def test_each_text_is_signed_for_one_purpose_at_most(text: str) -> None:
    signed = []
    for sign in (SIGNER.sign_challenge, SIGNER.sign_message):
        with contextlib.suppress(ValueError):
            signed.append(sign(text))
    assert len(signed) <= 1


@settings(max_examples=EXAMPLES)
@given(
    text=st.text(max_size=200),
    body=st.binary(max_size=100),
    kind=st.sampled_from(["binding 1", "binding 2", "other 1"]),
)
def test_no_statement_is_signed_as_a_text_nor_as_another_statement(text: str, body: bytes, kind: str) -> None:
    signature = SIGNER.sign_statement(Statement(kind, body))
    recovered = default_backend().recover(eip191_digest(text.encode()), signature)
    assert recovered is None or address_of(recovered) != ADDRESS
    if (kind, body) != ATTACKER_BINDING:
        assert not _binds("0x" + signature.hex())


@settings(max_examples=EXAMPLES)
@given(
    stream=st.text(min_size=1, max_size=200) | st.just(CHALLENGE), content=st.text(min_size=1, max_size=80) | CHALLENGES
)
def test_no_message_of_the_device_is_the_response_to_a_challenge(stream: str, content: str) -> None:
    message = StreamMessage(message_id=MessageID(stream, 0, 1, 0, ADDRESS, "chain"), content=content)
    assert not is_challenge(signed_payload(message), ADDRESS)


def _binds(signature: str) -> bool:
    try:
        Binding(
            address=ATTACKER_BINDING.body[:20],
            archive_key=ATTACKER_BINDING.body[20:],
            signature=bytes.fromhex(signature[2:]),
        )
    except ValueError:
        return False
    return True


def _claims(signature: str) -> bool:
    try:
        binding = object.__new__(Binding)  # as an attacker writes it: nothing is checked
        for name, value in (
            ("address", ATTACKER_BINDING.body[:20]),
            ("archive_key", ATTACKER_BINDING.body[20:]),
            ("signature", bytes.fromhex(signature[2:])),
        ):
            object.__setattr__(binding, name, value)
        statement = ClaimStatement(
            binding=binding, archive=bytes(32), size_bytes=1, entry=log_entry(), collector_key=bytes(32)
        )
        claim = sign_claim(statement, lambda message: ATTACKER_KEY.sign(message).signature)
        UploadClaim.from_bytes(claim.to_bytes())
    except (ValueError, WireError):
        return False
    return True


def _messages_that_say(text: str, signature: str) -> Iterator[StreamMessage]:
    """Every way to read the text as the payload of a message of the device, and what comes close to it."""
    for end in range(len(text)):
        for address_at in range(end, len(text)):
            if text[address_at : address_at + len(ADDRESS)].lower() != ADDRESS:
                continue
            digits, rest = text[end:address_at], text[address_at + len(ADDRESS) :]
            yield from _with_parts(text[:end], digits, rest, signature)
    yield from _with_parts(text, "000", "", signature)


def _with_parts(stream: str, digits: str, rest: str, signature: str) -> Iterator[StreamMessage]:
    if not stream or not (digits == "" or digits.isdecimal()):
        return
    partition, time, number = (int(part or "0") for part in (digits[:1], digits[1:-1], digits[-1:]))
    for cut in range(len(rest) + 1):
        for kind in (SignatureType.ETH, SignatureType.ETH_LEGACY):
            with contextlib.suppress(ValueError):
                yield StreamMessage(
                    message_id=MessageID(stream, partition, time, number, ADDRESS, rest[:cut]),
                    prev_msg_ref=MessageRef(0, 0) if cut % 2 and time else None,
                    content=rest[cut:] or "{}",
                    signature_type=kind,
                    signature=signature,
                )
