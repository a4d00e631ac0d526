"""States, not repetitions."""

from itertools import pairwise

from drivers.health import DeviceState, Health, Quality


def test_each_change_is_reported_once_with_the_duration_of_the_previous_state() -> None:
    health = Health("boiler", 1000)
    up = health.succeeded("", 2000)
    assert up is not None
    assert (up.before, up.after, up.lasted_ms) == (DeviceState.STARTING, DeviceState.UP, 1000)
    assert health.succeeded("", 3000) is None
    down = health.failed("boiler: no reply; check cable", 5000)
    assert down is not None
    assert str(down) == "boiler down after 3.0 s up; boiler: no reply; check cable"
    assert health.failed("another reason", 6000) is None
    back = health.succeeded("", 9000)
    assert back is not None
    assert (back.before, back.lasted_ms) == (DeviceState.DOWN, 4000)


def test_trouble_is_a_state_of_its_own() -> None:
    health = Health("boiler", 0)
    health.succeeded("", 0)
    degraded = health.succeeded("noise", 1)
    assert degraded is not None
    assert degraded.after is DeviceState.DEGRADED
    assert health.succeeded("other noise", 2) is None


def test_a_clock_that_is_set_back_gives_no_negative_length() -> None:
    health = Health("boiler", 1000)
    change = health.succeeded("", 500)
    assert change is not None
    assert change.lasted_ms == 0


def test_a_few_damaged_frames_are_no_trouble() -> None:
    quality = Quality()
    for _ in range(100):
        quality.good()
        quality.good()
        quality.damaged("x")
    assert (quality.trouble, quality.good_frames, quality.damaged_frames) == ("", 200, 100)


def test_noise_begins_and_ends_once() -> None:
    quality = Quality()
    states = []
    for is_good in [True] * 50 + [False] * 50 + [True, False] * 20 + [True] * 100:
        if is_good:
            quality.good()
        else:
            quality.damaged("wrong checksum")
        states.append(bool(quality.trouble))
    assert sum(before != after for before, after in pairwise(states)) == 2
    assert "wrong checksum" in quality.last_damage
