import random

import pytest

from firmware_bridge.clock_mapping import ClockMapping


def test_one_question_tells_the_offset_within_half_its_way() -> None:
    clock = ClockMapping()
    clock.add(1000, requested_ms=50_000, received_ms=50_010)
    assert clock.host_ms(1000) == 50_005
    assert clock.host_ms(2500) == 51_505


def test_slow_answers_count_for_nothing_beside_quick_ones() -> None:
    clock = ClockMapping()
    clock.add(1000, requested_ms=5000, received_ms=5004)
    clock.add(2000, requested_ms=6000, received_ms=6180)  # the answer waited on its way back
    clock.add(3000, requested_ms=7000, received_ms=7004)
    assert abs(clock.host_ms(3000) - 7002) < 1


@pytest.mark.parametrize("ppm", [-300, -20, 0, 50, 500])
def test_drift_is_found_under_jitter(ppm: float) -> None:
    clock, chance = ClockMapping(), random.Random(ppm)
    rate = 1 + ppm / 1e6
    for second in range(120):
        asked_ms = 10_000 + second * 1000.0
        there_ms, back_ms = chance.uniform(2, 4), chance.choice([2, 3, 60])
        uptime_ms = int((asked_ms + there_ms) / rate)
        clock.add(uptime_ms, asked_ms, asked_ms + there_ms + back_ms)
    assert abs(clock.drift_ppm - ppm) < 30
    assert abs(clock.host_ms(int(130_000 / rate)) - 130_000) < 4


def test_a_clock_that_jumps_is_followed_at_once() -> None:
    clock = ClockMapping()
    for second in range(40):
        clock.add(second * 1000, second * 1000.0, second * 1000.0 + 4)
    clock.add(40_000, 48_000, 48_004)  # it slept for eight seconds
    assert clock.jumps == 1
    assert abs(clock.host_ms(40_000) - 48_002) < 1


def test_an_impossible_drift_is_not_believed() -> None:
    clock = ClockMapping()
    for second in range(60):
        clock.add(second * 1000, second * 1090.0, second * 1090.0 + 400)
    assert abs(clock.drift_ppm) <= 1000.1
