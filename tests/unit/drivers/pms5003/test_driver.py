"""Frames of the particle sensor, judged by the data sheet and by pypms."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pms.core import Sensor

from drivers.framing import Damaged
from drivers.pms5003.driver import FRAME_BYTES, START, Pms5003Decoder, read_frame
from drivers.reading import Reading
from tests.support.driver_samples import PMS5003_FRAME


def make_frame(values: list[int]) -> bytes:
    body = START + b"".join(value.to_bytes(2, "big") for value in values) + b"\x97\x00"
    return body + sum(body).to_bytes(2, "big")


def readings_of(data: bytes, chunk: int = FRAME_BYTES) -> list[Reading]:
    decoder = Pms5003Decoder("air", 0)
    events = [event for at in range(0, len(data), chunk) for event in decoder.feed(data[at : at + chunk], at)]
    return [event for event in events if isinstance(event, Reading)]


def test_a_frame_gives_twelve_quantities() -> None:
    found = {name: (value, unit) for name, value, unit in read_frame(PMS5003_FRAME)}
    assert found["pm2_5_factory"] == (18.0, "ug/m3")
    assert found["pm10"] == (20.0, "ug/m3")
    assert found["particles_over_0_3um"] == (22.14, "/cm3")
    assert len(found) == 12


# A number of small particles below that of larger ones is refused by pypms as nonsense; a real sensor never says so.
counts = st.lists(st.integers(1, 0xFFFF), min_size=6, max_size=6).map(lambda numbers: sorted(numbers, reverse=True))
masses = st.lists(st.integers(1, 500), min_size=6, max_size=6)


@given(masses, counts)
def test_every_frame_means_what_pypms_says(mass: list[int], count: list[int]) -> None:
    frame = make_frame([*mass, *count])
    theirs: Any = Sensor["PMSx003"].decode(frame)
    ours = [value for _, value, _ in read_frame(frame)]
    expected = [theirs.raw01, theirs.raw25, theirs.raw10, theirs.pm01, theirs.pm25, theirs.pm10]
    expected += [theirs.n0_3, theirs.n0_5, theirs.n1_0, theirs.n2_5, theirs.n5_0, theirs.n10_0]
    assert ours == pytest.approx(expected)


def test_an_error_code_is_a_reading_of_its_own() -> None:
    broken = bytearray(PMS5003_FRAME)
    broken[29] = 2
    broken[30:] = sum(broken[:30]).to_bytes(2, "big")
    assert read_frame(bytes(broken))[-1] == ("error_code", 2.0, "")


@pytest.mark.parametrize("chunk", [1, 3, 31, 32, 33, 1000])
def test_frames_are_found_in_noise_however_they_are_cut(chunk: int) -> None:
    data = b"\x42\x4dnoise" + PMS5003_FRAME + b"\x42\x4d\x00" + PMS5003_FRAME + START + PMS5003_FRAME
    assert len(readings_of(data, chunk)) == 36


def test_a_damaged_frame_costs_itself_only() -> None:
    damaged = bytearray(PMS5003_FRAME)
    damaged[10] ^= 1
    events = Pms5003Decoder("air", 0).feed(bytes(damaged) + PMS5003_FRAME, 0)
    assert "wrong sum" in next(event.problem for event in events if isinstance(event, Damaged))
    assert sum(isinstance(event, Reading) for event in events) == 12


def test_no_more_than_one_set_comes_per_interval() -> None:
    decoder = Pms5003Decoder("air", 10)
    sets = [len(decoder.feed(PMS5003_FRAME, now_ms)) for now_ms in (0, 1000, 9999, 10_000, 11_000, 5_000)]
    assert sets == [12, 0, 0, 12, 0, 12]  # the last: the clock was set back


@given(st.binary(max_size=400))
def test_any_bytes_give_readings_or_damage_and_little_is_kept(data: bytes) -> None:
    decoder = Pms5003Decoder("air", 0)
    for event in decoder.feed(data, 0):
        assert isinstance(event, Reading | Damaged)
    assert len(decoder._pending) < FRAME_BYTES


@given(st.binary(max_size=100), st.integers(0, 255))
def test_one_flipped_byte_never_gives_a_wrong_reading(noise: bytes, flip: int) -> None:
    frame = bytearray(PMS5003_FRAME)
    at = len(noise) % FRAME_BYTES
    frame[at] = flip
    found = readings_of(bytes(frame))
    assert len(found) in (0, 12)
    if bytes(frame) != PMS5003_FRAME:
        assert found == []
