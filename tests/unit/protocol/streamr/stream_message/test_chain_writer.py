"""The hot path writes what the general encoder writes; the property tests say so for any message."""

import pytest

from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import EncryptedGroupKey, EncryptionType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.chain_writer import ChainWriter
from protocol.streamr.stream_message.signing import sign_message, verify

SIGNER = Signer(b"\x01" * 32)
REF, PREV = MessageRef(1_600_000_000_000, 1), MessageRef(1_600_000_000_000, 0)


def a_writer() -> ChainWriter:
    return ChainWriter(SIGNER, stream_id="stream", stream_partition=3, msg_chain_id="chain")


def a_message(ref: MessageRef = REF) -> StreamMessage:
    message_id = MessageID("stream", 3, ref.timestamp, ref.sequence_number, SIGNER.address, "chain")
    return StreamMessage(message_id, '{"a":"é\\n"}', PREV)


def test_plain_message_is_the_general_encoder_s() -> None:
    written = a_writer().write('{"a":"é\\n"}', REF, PREV)
    assert written.decode() == sign_message(a_message(), SIGNER).serialize()
    assert verify(parse_stream_message(written))


def test_encrypted_message_that_hands_over_a_key_is_the_general_encoder_s() -> None:
    new_group_key = EncryptedGroupKey.build('key "2"', "00")
    general = a_message().replace(
        content="00ff", encryption_type=EncryptionType.AES, group_key_id="key-1", new_group_key=new_group_key
    )
    written = a_writer().write("00ff", REF, PREV, group_key_id="key-1", new_group_key=new_group_key)
    assert written.decode() == sign_message(general, SIGNER).serialize()


@pytest.mark.parametrize(
    ("content", "ref", "prev", "field"),
    [
        ("", REF, None, "content"),
        ("{}", PREV, REF, "prev_msg_ref"),
        ("{}", REF, REF, "prev_msg_ref"),
        ("{}", MessageRef(2**53, 0), None, "JSON"),
        ("\ud800", REF, None, "surrogates"),
    ],
)
def test_message_that_cannot_be_is_refused_by_name(
    content: str, ref: MessageRef, prev: MessageRef | None, field: str
) -> None:
    with pytest.raises(ValueError, match=field):
        a_writer().write(content, ref, prev)


@pytest.mark.parametrize(("stream_id", "stream_partition"), [("", 0), ("stream", -1)])
def test_chain_that_cannot_be_is_refused_by_name(stream_id: str, stream_partition: int) -> None:
    with pytest.raises(ValueError, match=r"stream_id|stream_partition"):
        ChainWriter(SIGNER, stream_id=stream_id, stream_partition=stream_partition, msg_chain_id="chain")
