import pytest

from protocol.errors import Corrupt, Truncated
from protocol.link import MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, Ack, Damaged, Frame, FrameType, LinkDecoder, frame_of
from protocol.link.cobs import unstuff
from protocol.link.frame import MAX_STUFFED_BYTES

ACK = frame_of(Ack(committed_rseq=1001), session=7, seq=4)
WIRE = ACK.to_bytes()


def test_frames_may_share_the_zero_between_them() -> None:
    assert LinkDecoder().feed(WIRE + WIRE[1:]) == [ACK, ACK]


def test_zeros_alone_are_no_event() -> None:
    assert LinkDecoder().feed(bytes(1000)) == []


def test_noise_before_a_frame_costs_nothing_but_itself() -> None:
    noise, frame = LinkDecoder().feed(b"noise" + WIRE)
    assert isinstance(noise, Damaged)
    assert noise.size_bytes == 5
    assert not noise.is_foreign
    assert frame == ACK


def test_a_stream_without_a_zero_is_held_up_to_one_frame_and_then_reported_as_one_damage() -> None:
    decoder = LinkDecoder()
    for _ in range(100):
        assert decoder.feed(b"\1" * 1000) == []
        assert len(decoder._pending) <= MAX_STUFFED_BYTES + 1
    damaged, frame = decoder.feed(WIRE)
    assert isinstance(damaged, Damaged)
    assert "without a zero" in damaged.problem
    assert frame == ACK


def test_a_flood_gives_the_same_events_whole_and_in_pieces() -> None:
    flood, decoder = b"\1" * 5000 + b"\0", LinkDecoder()
    pieces = [event for start in range(0, len(flood), 7) for event in decoder.feed(flood[start : start + 7])]
    assert pieces == LinkDecoder().feed(flood)


def test_the_largest_frame_fits_and_no_larger_one() -> None:
    largest = Frame(kind=FrameType.LOG, payload=bytes(MAX_PAYLOAD_BYTES))
    assert LinkDecoder().feed(largest.to_bytes()) == [largest]
    with pytest.raises(ValueError, match=f"at most {MAX_PAYLOAD_BYTES}"):
        Frame(kind=FrameType.LOG, payload=bytes(MAX_PAYLOAD_BYTES + 1))
    assert MAX_PAYLOAD_BYTES < MAX_BODY_BYTES


@pytest.mark.parametrize("name", ["session", "seq"])
@pytest.mark.parametrize("number", [-1, 256])
def test_the_header_has_room_for_one_byte_each(name: str, number: int) -> None:
    with pytest.raises(ValueError, match=f"{name} {number} is not within 0..255"):
        Frame(kind=FrameType.ACK, **{name: number})  # type: ignore[arg-type]


def test_stuffed_bytes_that_never_were_are_refused() -> None:
    for data, error in ((b"", Corrupt), (b"\2\0", Corrupt), (b"\5\1\2", Truncated)):
        with pytest.raises(error):
            unstuff(data)


def test_a_last_code_after_a_full_block_is_taken_with_and_without() -> None:
    full = b"\xff" + b"\1" * 254
    assert unstuff(full) == unstuff(full + b"\1") == b"\1" * 254
