"""An envelope made of text is the one that the messages themselves write."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.streamr.control import BroadcastMessage, PublishRequest, UnicastMessage, parse_control_message
from protocol.streamr.control.envelope import broadcast_text, peek_broadcast_id, publish_frame, unicast_text
from testbed.corpus.archives import Device

MESSAGE = Device(5).chain("boiler").reading(1.0, 1_790_000_000_000).message
TEXT = MESSAGE.serialize()
FRAME = broadcast_text(TEXT).encode()


def test_a_broadcast_is_what_its_value_writes() -> None:
    assert broadcast_text(TEXT) == BroadcastMessage(stream_message=MESSAGE).serialize()


@given(request_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_unicast_is_what_its_value_writes(request_id: str) -> None:
    assert unicast_text(request_id, TEXT) == UnicastMessage(request_id=request_id, stream_message=MESSAGE).serialize()


@given(session_token=st.none() | st.text(st.characters(exclude_categories=["Cs"])))
def test_a_publish_request_is_what_its_value_writes(session_token: str | None) -> None:
    request = PublishRequest(request_id="1-2", stream_message=MESSAGE, session_token=session_token)
    assert publish_frame("1-2", TEXT.encode(), session_token) == request.serialize().encode()


def test_the_id_is_read_of_a_broadcast_alone() -> None:
    assert peek_broadcast_id(FRAME) == MESSAGE.message_id
    assert peek_broadcast_id(unicast_text("r", TEXT)) is None


@pytest.mark.parametrize(
    "message_id",
    [None, 5, [], ["s", 0, 1, 0, "p"], ["s", 0, 1, 0, "p", None], [["s"], 0, 1, 0, "p", "c"], ["", 0, 1, 0, "p", "c"]],
)
def test_what_is_no_message_id_is_not_read(message_id: object) -> None:
    assert peek_broadcast_id(orjson.dumps([2, 0, "", [32, message_id]])) is None


@given(place=st.integers(0, len(FRAME) - 1), byte=st.integers(0, 255))
def test_a_changed_broadcast_has_the_id_that_the_general_reader_finds(place: int, byte: int) -> None:
    frame = bytearray(FRAME)
    frame[place] = byte
    try:
        message = parse_control_message(bytes(frame))
    except WireError:
        return
    peeked = peek_broadcast_id(bytes(frame))
    assert peeked is None or (isinstance(message, BroadcastMessage) and message.stream_message.message_id == peeked)
