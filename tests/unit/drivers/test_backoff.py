"""Waits grow, are bounded, and are never in step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.backoff import Backoff

chances = st.floats(0, 1, exclude_max=True)


def test_waits_double_up_to_the_longest() -> None:
    policy = Backoff(first_s=0.5, factor=2, max_s=4, jitter=0.5)
    assert [policy.wait_s(failures, 0.0) for failures in range(1, 7)] == [0.5, 1, 2, 4, 4, 4]


def test_chance_takes_away_up_to_its_share() -> None:
    policy = Backoff(first_s=1, max_s=1, jitter=0.5)
    assert policy.wait_s(1, 0.5) == 0.75


@given(st.integers(1, 10**9), chances)
def test_no_number_of_failures_waits_too_long_or_not_at_all(failures: int, chance: float) -> None:
    assert 0 < Backoff().wait_s(failures, chance) <= Backoff().max_s


@pytest.mark.parametrize("wrong", [{"first_s": 0}, {"first_s": 2, "max_s": 1}, {"factor": 0.5}, {"jitter": 1}])
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="backoff"):
        Backoff(**wrong)
