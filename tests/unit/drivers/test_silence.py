"""A sensor that falls silent is noticed by its own rhythm, or by the time that the settings say."""

import pytest

from drivers.health import FLOOR_S, LEARNED_FROM, MAX_SENSORS, PATIENCE, SilenceDetector
from drivers.reading import Reading


def reading(sensor: str) -> Reading:
    return Reading(sensor, "t", 1, taken_at_ms=0)


def beat(detector: SilenceDetector, sensor: str, intervals_s: list[float], now_s: float = 0.0) -> float:
    """Gives the time of the last."""
    for interval_s in intervals_s:
        now_s += interval_s
        detector.note([reading(sensor)], now_s)
    return now_s


@pytest.mark.parametrize(
    ("interval_s", "limit_s"), [(1.0, FLOOR_S), (60.0, PATIENCE * 60.0), (3600.0, PATIENCE * 3600.0)]
)
def test_a_sensor_is_silent_after_several_of_its_intervals(interval_s: float, limit_s: float) -> None:
    detector = SilenceDetector(None, 0.0)
    now_s = beat(detector, "boiler", [interval_s] * (LEARNED_FROM + 1))
    assert detector.silence(now_s + limit_s) == ""
    assert detector.silence(now_s + limit_s + 2).startswith("no reading of boiler for")
    beat(detector, "boiler", [0.0], now_s + limit_s + 3)
    assert detector.silence(now_s + limit_s + 5) == ""


def test_one_silent_sensor_among_many_is_named() -> None:
    detector = SilenceDetector(None, 0.0)
    for second in range(0, 1000, 10):
        detector.note([reading("a"), reading("b")] if second < 500 else [reading("a")], float(second))
    assert "b for" in detector.silence(1000.0)
    assert "a for" not in detector.silence(1000.0)


def test_nothing_is_said_of_a_sensor_that_is_not_known_well_enough_or_has_no_rhythm() -> None:
    detector = SilenceDetector(None, 0.0)
    assert detector.silence(1e6) == ""
    beat(detector, "new", [1.0] * LEARNED_FROM)
    assert detector.silence(1e7) == ""
    door = SilenceDetector(None, 0.0)
    now_s = beat(door, "door", [5.0, 3600.0, 10.0, 2.0] * LEARNED_FROM)
    assert door.silence(now_s + 86_400) == ""


def test_an_outage_does_not_make_it_patient_for_ever() -> None:
    detector = SilenceDetector(None, 0.0)
    now_s = beat(detector, "a", [10.0] * 20 + [7200.0] + [10.0] * LEARNED_FROM)
    assert detector.silence(now_s + FLOOR_S + 2)


def test_the_setting_counts_for_all_and_from_the_start_and_0_turns_it_off() -> None:
    detector = SilenceDetector(30.0, 0.0)
    assert detector.silence(29.0) == ""
    assert detector.silence(32.0) == "no reading for 32 s; check that the device is sending"
    detector.note([], 33.0)
    assert detector.silence(35.0) != ""
    detector.note([reading("a")], 40.0)
    assert detector.silence(60.0) == ""
    assert "a for 35 s, the limit is 30 s" in detector.silence(75.0)
    assert SilenceDetector(0.0, 0.0).silence(1e6) == ""


def test_a_source_that_invents_sensors_costs_no_more_memory_than_that() -> None:
    detector = SilenceDetector(None, 0.0)
    for number in range(3 * MAX_SENSORS):
        detector.note([reading(str(number))], float(number))
    assert len(detector._sensors) == MAX_SENSORS
