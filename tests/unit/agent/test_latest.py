from agent.latest import MAX_SENSORS, LatestReadings
from drivers import Reading


def test_the_last_reading_of_each_sensor_and_quantity_is_kept() -> None:
    latest = LatestReadings()
    latest.note([Reading("a", "t", 1, taken_at_ms=1), Reading("a", "t", 2, taken_at_ms=2)])
    latest.note([Reading("a", "u", 3, taken_at_ms=3), Reading("b", "t", 4, taken_at_ms=4)])
    assert {name: reading.value for name, reading in latest.readings.items()} == {
        ("a", "t"): 2,
        ("a", "u"): 3,
        ("b", "t"): 4,
    }


def test_a_payload_is_not_held() -> None:
    latest = LatestReadings()
    latest.note([Reading("camera", "photo", b"x" * 5000, taken_at_ms=7, mime_type="image/jpeg")])
    (reading,) = latest.readings.values()
    assert (reading.value, reading.taken_at_ms) == ("5000 bytes", 7)


def test_a_source_that_invents_names_costs_bounded_memory() -> None:
    latest = LatestReadings()
    for number in range(3 * MAX_SENSORS):
        latest.note([Reading(f"s{number}", "t", number, taken_at_ms=1)])
    latest.note([Reading("s0", "t", -1, taken_at_ms=2)])
    assert len(latest.readings) == MAX_SENSORS
    assert latest.has_more
    assert latest.readings["s0", "t"].value == -1, "those that are known go on"
