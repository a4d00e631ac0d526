"""Believable, and the same each time."""

from itertools import pairwise
from statistics import mean, stdev

import pytest

from drivers.simulated.signals import DAY_MS, Signal, make_source

NOON_MS = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2
KINDS = ["diurnal", "walk", "switch", "burst", "blob"]


def values(signal: Signal, seed: str = "1", count: int = 2000, step_ms: int = 1000) -> list[float]:
    source = make_source(signal, seed)
    return [float(value) for i in range(count) if not isinstance(value := source(NOON_MS + i * step_ms), bytes | str)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_values_and_another_seed_others(kind: str) -> None:
    signal = Signal(kind=kind, quantity="x", chance=0.2)  # type: ignore[arg-type]
    one, same, other = (
        [source(NOON_MS + i) for i in range(50)] for source in (make_source(signal, seed) for seed in "112")
    )
    assert one == same
    assert one != other


def test_a_day_is_warmest_in_the_afternoon_and_swings_by_the_swing() -> None:
    day = values(Signal(kind="diurnal", quantity="t", mean=20, swing=5, noise=0), count=24 * 60, step_ms=60_000)
    warmest_hour = (12 + day.index(max(day)) / 60) % 24
    assert warmest_hour == pytest.approx(15, abs=0.2)
    assert (max(day), min(day)) == (25, 15)


def test_noise_has_the_size_it_was_given() -> None:
    noisy = values(Signal(kind="diurnal", quantity="t", swing=0, noise=0.5))
    assert mean(noisy) == pytest.approx(20, abs=0.1)
    assert stdev(noisy) == pytest.approx(0.5, rel=0.1)


def test_a_walk_stays_within_its_bounds_and_moves_in_small_steps() -> None:
    walk = values(Signal(kind="walk", quantity="h", mean=50, swing=2, noise=0.3))
    assert all(48 <= value <= 52 for value in walk)
    assert max(abs(a - b) for a, b in pairwise(walk)) < 2
    assert len(set(walk)) > 100


def test_a_switch_changes_about_as_often_as_its_chance_says() -> None:
    states = values(Signal(kind="switch", quantity="p", chance=0.1))
    assert 140 < sum(a != b for a, b in pairwise(states)) < 260


def test_a_burst_knocks_and_dies_away() -> None:
    burst = values(Signal(kind="burst", quantity="v", mean=0, swing=20, noise=0, chance=0.01))
    start = burst.index(20.0)
    assert burst[start : start + 3] == [20.0, 14.0, 9.8]


def test_a_blob_begins_and_ends_like_a_photograph_and_has_about_the_configured_size() -> None:
    blob = make_source(Signal(kind="blob", quantity="p", payload_bytes=1000), "1")(NOON_MS)
    assert isinstance(blob, bytes)
    assert blob.startswith(b"\xff\xd8\xff\xe0")
    assert blob.endswith(b"\xff\xd9")
    assert 890 <= len(blob) <= 1110
