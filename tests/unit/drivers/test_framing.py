"""Frames from a byte stream, whatever its chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.framing import Damaged, DelimitedFrames, FixedFrames


def kinds(events: list[bytes | Damaged]) -> list[bytes | str]:
    return ["damaged" if isinstance(event, Damaged) else event for event in events]


def test_lines_end_with_their_delimiter_and_empty_ones_are_left_out() -> None:
    frames = DelimitedFrames(b"\r\n", 10)
    assert frames.feed(b"one\r\n\r\ntw") == [b"one"]
    assert frames.feed(b"o\r") == []
    assert frames.feed(b"\nthree") == [b"two"]


def test_a_line_without_end_is_one_damage_and_the_next_is_read() -> None:
    frames = DelimitedFrames(b"\n", 4)
    events = [event for _ in range(1000) for event in frames.feed(b"x" * 100)]
    assert kinds(events) == ["damaged"]
    assert frames.feed(b"xx\nok\n") == [b"ok"]


def test_memory_is_bounded_whatever_comes() -> None:
    frames = DelimitedFrames(b"abc", 64)
    for _ in range(100):
        frames.feed(b"ab" * 4096)
    assert len(frames._pending) < 64 + 3


def test_frames_of_one_length_are_cut_by_count() -> None:
    frames = FixedFrames(3)
    assert frames.feed(b"abcde") == [b"abc"]
    assert frames.feed(b"f") == [b"def"]


def test_a_sync_word_finds_the_start_again_after_noise() -> None:
    frames = FixedFrames(4, b"\xaa\x55")
    assert kinds(frames.feed(b"noise\xaa\x55ab\xaa")) == ["damaged", b"\xaa\x55ab"]
    assert frames.feed(b"\x55cd") == [b"\xaa\x55cd"]


@pytest.mark.parametrize(("delimiter", "max_bytes"), [(b"", 10), (b"\n", 0), (b"\n", 10**6)])
def test_a_splitter_that_cannot_work_is_refused(delimiter: bytes, max_bytes: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        DelimitedFrames(delimiter, max_bytes)


noise = st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n", b"\r\n", b"aaaa", b"\xaa", b"\x55"]), max_size=60).map(
    b"".join
)


@given(noise, st.sampled_from([b"\n", b"\r\n", b"aab"]), st.integers(1, 12))
def test_whole_and_byte_by_byte_feeding_of_lines_agree(data: bytes, delimiter: bytes, max_bytes: int) -> None:
    slow = DelimitedFrames(delimiter, max_bytes)
    one_by_one = [event for at in range(len(data)) for event in slow.feed(data[at : at + 1])]
    at_once = DelimitedFrames(delimiter, max_bytes).feed(data)
    assert [e for e in kinds(one_by_one) if e != "damaged"] == [e for e in kinds(at_once) if e != "damaged"]


@given(noise, st.integers(2, 8))
def test_whole_and_byte_by_byte_feeding_of_frames_agree(data: bytes, frame_bytes: int) -> None:
    slow = FixedFrames(frame_bytes, b"\xaa\x55")
    one_by_one = [event for at in range(len(data)) for event in slow.feed(data[at : at + 1])]
    at_once = FixedFrames(frame_bytes, b"\xaa\x55").feed(data)
    assert [e for e in one_by_one if isinstance(e, bytes)] == [e for e in at_once if isinstance(e, bytes)]
    assert len(slow._pending) < frame_bytes


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=20))
def test_lines_that_were_written_are_read(lines: list[bytes]) -> None:
    assert DelimitedFrames(b"\n", 20).feed(b"".join(line + b"\n" for line in lines)) == lines
