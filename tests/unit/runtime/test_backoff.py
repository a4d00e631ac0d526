import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(first_s=1, max_s=8)
    assert [backoff.wait_s(failures, 1.0) for failures in range(1, 7)] == [1, 2, 4, 8, 8, 8]


def test_chance_shortens_a_wait_by_up_to_half() -> None:
    backoff = Backoff(first_s=1, max_s=8)
    assert [backoff.wait_s(3, chance) for chance in (0.0, 0.5, 1.0)] == [2, 3, 4]


@given(failures=st.integers(0, 10**9), chance=st.floats(0, 1))
def test_no_number_of_failures_waits_too_short_or_too_long(failures: int, chance: float) -> None:
    assert 0.25 <= Backoff(first_s=0.5, max_s=60).wait_s(failures, chance) <= 60


@pytest.mark.parametrize(("first_s", "max_s"), [(0, 1), (-1, 1), (2, 1)])
def test_a_policy_that_cannot_work_is_refused(first_s: float, max_s: float) -> None:
    with pytest.raises(ValueError, match="backoff: first_s"):
        Backoff(first_s=first_s, max_s=max_s)
