import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.mqtt_bridge.bridge import MAX_MESSAGES, read_payload
from protocol.errors import Corrupt, Unsupported, WireError
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage

MESSAGE = StreamMessage(MessageID("stream", 0, 5, 0, "0xpublisher", "chain"), '{"a":"é"}')
OTHER = MESSAGE.replace(message_id=MessageID("stream", 0, 6, 0, "0xpublisher", "chain"))


def test_a_payload_is_one_message() -> None:
    assert read_payload(MESSAGE.serialize().encode()) == [MESSAGE]


def test_a_payload_is_an_array_of_messages() -> None:
    payload = f"[{MESSAGE.serialize()}, {OTHER.serialize()}]"
    assert read_payload(payload.encode()) == [MESSAGE, OTHER]


def test_one_bad_message_among_good_ones_is_named_and_none_is_taken() -> None:
    with pytest.raises(Unsupported, match=r"^\[1\]\[0\] version"):
        read_payload(f"[{MESSAGE.serialize()},[99]]".encode())


@pytest.mark.parametrize("payload", [b"", b"\xff", b"{}", b"[]", b"7", b'"text"', b"[[]]", b"[32]", b"[" * 100_000])
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        read_payload(payload)


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(Corrupt, match="10001 messages"):
        read_payload(b"[" + b",".join([b"[]"] * (MAX_MESSAGES + 1)) + b"]")


@given(st.binary())
def test_any_bytes_give_messages_or_a_wire_error(payload: bytes) -> None:
    try:
        messages = read_payload(payload)
    except WireError:
        return
    assert messages
