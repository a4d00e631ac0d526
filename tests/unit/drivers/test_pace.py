"""Ticks do not drift, and a flood is let in no faster than allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.pace import Schedule, Throttle


def test_ticks_stay_on_whole_multiples_however_long_the_work_takes() -> None:
    schedule = Schedule(10, now_s=100)
    assert schedule.wait_s(100) == 0
    assert schedule.wait_s(103) == 7
    assert schedule.wait_s(119) == 1


def test_ticks_that_were_missed_are_left_out() -> None:
    schedule = Schedule(10, now_s=0)
    assert schedule.wait_s(0) == 0
    assert schedule.wait_s(57) == 0  # that of 50 s, late
    assert schedule.wait_s(57) == pytest.approx(3)


def test_a_steady_device_is_never_paused() -> None:
    throttle = Throttle(1000, now_s=0)
    assert [throttle.pause_s(100, now_s) for now_s in range(1, 20)] == [0.0] * 19
    assert not throttle.flooded


def test_a_flood_is_paused_and_told_until_it_ends() -> None:
    throttle = Throttle(1000, now_s=0)
    assert throttle.pause_s(3000, 0) == 2
    assert throttle.flooded
    throttle.pause_s(10, 10)
    assert not throttle.flooded


@given(st.lists(st.integers(0, 4096), max_size=200))
def test_who_obeys_the_pauses_takes_no_more_than_the_rate(chunks: list[int]) -> None:
    throttle, now_s = Throttle(1000, 0.0), 0.0
    for chunk in chunks:
        now_s += throttle.pause_s(chunk, now_s)
    assert sum(chunks) <= 1000 * (now_s + 1) + 1e-6
