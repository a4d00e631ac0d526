import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.publish.backoff import Backoff, RateLimit


@given(failures=st.integers(0, 10**9), chance=st.floats(0, 1))
def test_a_wait_is_between_half_of_the_first_and_the_longest(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.5, max_s=60)
    assert 0.25 <= backoff.wait_s(failures, chance) <= 60


def test_waits_double_until_the_limit() -> None:
    backoff = Backoff(first_s=1, max_s=8)
    assert [backoff.wait_s(failures, 1.0) for failures in range(1, 6)] == [1, 2, 4, 8, 8]


def test_chance_spreads_the_devices() -> None:
    backoff = Backoff(first_s=1, max_s=8)
    assert {backoff.wait_s(3, chance) for chance in (0.0, 0.5, 1.0)} == {2, 3, 4}


@pytest.mark.parametrize(("first_s", "max_s"), [(0, 1), (-1, 1), (2, 1)])
def test_waits_that_make_no_sense_are_refused(first_s: float, max_s: float) -> None:
    with pytest.raises(ValueError, match="first_s"):
        Backoff(first_s=first_s, max_s=max_s)


def test_without_a_rate_there_is_no_limit() -> None:
    rate = RateLimit(None)
    assert rate.allowance(10**9, 0.0) == 10**9
    assert rate.wait_s == 0


@given(steps=st.lists(st.tuples(st.floats(0, 2), st.integers(0, 50)), max_size=50))
def test_no_more_than_the_rate_and_one_second_of_it_at_once(steps: list[tuple[float, int]]) -> None:
    rate, now_s, spent = RateLimit(10), 0.0, 0
    for pause_s, wanted in steps:
        now_s += pause_s
        allowed = rate.allowance(wanted, now_s)
        assert allowed <= wanted
        rate.spend(allowed)
        spent += allowed
        assert spent <= 10 + 10 * now_s + 1e-6


def test_the_wait_is_long_enough_for_one_more() -> None:
    rate = RateLimit(4)
    rate.spend(rate.allowance(4, 0.0))
    assert rate.wait_s == pytest.approx(0.25)
    assert rate.allowance(1, 0.25) == 1


def test_a_clock_that_steps_back_gives_nothing_away() -> None:
    rate = RateLimit(4)
    rate.spend(rate.allowance(4, 100.0))
    assert rate.allowance(4, 0.0) == 0
