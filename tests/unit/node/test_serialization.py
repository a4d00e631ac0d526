"""Messages in whatever versions a client asked for."""

import json

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from node.serialization import Broadcast, BroadcastRun, Versions, text_frame, unicast_frames
from protocol.streamr.stream_message import EncryptedGroupKey, EncryptionType, StreamMessage
from tests.support.node_samples import a_message, a_signed_message


def run_of(*messages: StreamMessage) -> BroadcastRun:
    return BroadcastRun([Broadcast(message, message.serialize()) for message in messages])


def payload_of(frame: bytes) -> str:
    """What a peer reads from the frame, by the judgement of another library."""
    reader = StreamReader()
    reader.feed_data(frame)
    parsing = Frame.parse(reader.read_exact, mask=False)
    try:
        next(parsing)
    except StopIteration as done:
        parsed: Frame = done.value
        assert parsed.fin
        assert parsed.opcode is Opcode.TEXT
        assert len(reader.buffer) == 0
        return bytes(parsed.data).decode()
    raise AssertionError("the frame is not whole")


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_frames_of_every_length_are_read_by_others(length: int) -> None:
    assert payload_of(text_frame("x" * length)) == "x" * length


def test_text_beyond_ascii_is_framed_by_its_bytes() -> None:
    assert payload_of(text_frame("°" * 100)) == "°" * 100


@pytest.mark.parametrize(
    ("versions", "start"),
    [
        (Versions(2, 32), [2, 0, ""]),
        (Versions(2, 31), [2, 0, ""]),
        (Versions(1, 31), [1, 0]),
        (Versions(1, 30), [1, 0]),
        (Versions(0, 28), [0, 0, None]),
    ],
)
def test_a_broadcast_is_written_in_the_versions_asked_for(versions: Versions, start: list[object]) -> None:
    message = a_signed_message()
    parsed = json.loads(payload_of(run_of(message).frames(versions).data))

    assert parsed[:-1] == start
    assert parsed[-1] == json.loads(message.serialize(versions.stream))


def test_the_text_of_a_stored_message_is_passed_on_as_it_is() -> None:
    text = '[32, ["s",0,1,0,"p","c"], null,27,0,0,null,"{ \\"a\\" : 1.0 }",null,0,null]'

    assert payload_of(unicast_frames([text], "request", Versions(2, 32)).data) == f'[2,1,"request",{text}]'


def test_request_ids_are_escaped() -> None:
    request_id = 'a"\\\u2028'
    frames = unicast_frames([a_message().serialize()], request_id, Versions(2, 32))

    assert json.loads(payload_of(frames.data))[2] == request_id


@pytest.mark.parametrize("versions", [Versions(1, 31), Versions(2, 30), Versions(0, 28)])
def test_a_resent_message_is_converted_where_the_client_requires_another_version(versions: Versions) -> None:
    message = a_signed_message()
    parsed = json.loads(payload_of(unicast_frames([message.serialize()], "request", versions).data))

    assert parsed[-1] == json.loads(message.serialize(versions.stream))


def test_a_message_that_a_version_cannot_hold_is_left_out_and_counted() -> None:
    rotating = a_signed_message(
        encryption_type=EncryptionType.AES, group_key_id="a", new_group_key=EncryptedGroupKey.build("b", "00")
    )
    run = run_of(rotating, a_signed_message(2))

    assert run.frames(Versions(2, 32))[1:] == (2, 0)
    assert run.frames(Versions(1, 31))[1:] == (1, 1)
    assert json.loads(payload_of(run.frames(Versions(1, 31)).data))[-1] == json.loads(a_signed_message(2).serialize(31))
    assert unicast_frames([rotating.serialize()], "request", Versions(0, 28)) == (b"", 0, 1)


def test_the_frames_of_a_run_are_those_of_its_messages_in_their_order() -> None:
    messages = [a_signed_message(n) for n in range(3)]
    one_by_one = [run_of(message).frames(Versions(2, 32)).data for message in messages]

    assert run_of(*messages).frames(Versions(2, 32)).data == b"".join(one_by_one)


def test_each_form_of_a_run_is_made_once() -> None:
    run = run_of(a_signed_message(1), a_signed_message(2))

    assert run.frames(Versions(1, 31)) is run.frames(Versions(1, 31))
