import json

from agent.collect import CollectorStatus
from agent.service.page.history import MAX_POINTS, MAX_SERIES, History
from drivers import Reading


def device(*readings: Reading, state: str = "up") -> CollectorStatus:
    status = CollectorStatus(state=state)
    status.latest.note(readings)
    return status


def reading(value: float | bool | str | bytes, quantity: str = "temperature") -> Reading:
    return Reading("boiler", quantity, value, taken_at_ms=1, mime_type="x/y" if isinstance(value, bytes) else "")


def values(history: History) -> list[list[float | None]]:
    return [series["values"] for series in history.as_json()["series"]]


def test_each_look_adds_a_point() -> None:
    history = History()
    for value in (20.5, 21, True):
        history.sample({"boiler": device(reading(value))})
    assert values(history) == [[20.5, 21.0, 1.0]]


def test_a_device_that_is_down_leaves_a_gap() -> None:
    history = History()
    history.sample({"boiler": device(reading(1.0))})
    history.sample({"boiler": device(reading(1.0), state="down")})
    assert values(history) == [[1.0, None]]


def test_what_is_no_number_has_no_curve() -> None:
    history = History()
    history.sample({"a": device(reading("text"), reading(b"jpeg", "photo"), reading(10**400, "huge"))})
    assert values(history) == []


def test_it_is_bounded_in_points_and_series() -> None:
    history = History()
    many = [reading(float(n), f"q{n}") for n in range(MAX_SERIES)]
    for _ in range(MAX_POINTS + 5):
        history.sample({"a": device(*many), "b": device(reading(1.0))})
    assert len(values(history)) == MAX_SERIES
    assert {len(each) for each in values(history)} == {MAX_POINTS}


def test_a_sensor_that_is_gone_is_forgotten() -> None:
    history = History()
    history.sample({"a": device(reading(1.0))})
    history.sample({})
    assert values(history) == []


def test_it_is_json_whatever_the_names_and_values() -> None:
    history = History()
    history.sample({"a": device(reading(1e300, "</script>\ud800"), reading(-5e-324, "small"))})
    assert json.loads(json.dumps(history.as_json()))["series"][0]["quantity"] == "</script>\ud800"
