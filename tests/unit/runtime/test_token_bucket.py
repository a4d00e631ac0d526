import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.token_bucket import TokenBucket


def test_a_burst_goes_at_once_and_what_comes_after_it_waits_in_turn() -> None:
    bucket = TokenBucket(10, burst=2)
    assert [bucket.take(1, 0.0) for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])


def test_a_debt_is_paid_with_time() -> None:
    bucket = TokenBucket(10, burst=20)
    assert bucket.take(25, 0.0) == pytest.approx(0.5)
    assert bucket.take(5, 1.0) == 0  # 10 came in, 5 were owed, 5 are taken
    assert bucket.take(1, 1.0) == pytest.approx(0.1)


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(10, burst=20)
    bucket.take(1, 0.0)
    assert bucket.level(1_000_000.0) == 20
    assert bucket.take(30, 1_000_000.0) == pytest.approx(1.0)


def test_what_is_refused_is_not_taken() -> None:
    bucket = TokenBucket(1, burst=1)
    assert bucket.take_if_available(1, 0.0) == 0
    assert [bucket.take_if_available(1, 0.5) for _ in range(100)] == [0.5] * 100
    assert bucket.take_if_available(1, 1.0) == 0


def test_the_wait_is_long_enough_for_that_many() -> None:
    bucket = TokenBucket(4, burst=4)
    bucket.take(4, 0.0)
    assert bucket.wait_s(2, 0.0) == 0.5
    assert bucket.wait_s(2, 0.5) == 0


@given(steps=st.lists(st.tuples(st.floats(0, 2), st.integers(0, 50)), max_size=50))
def test_no_more_than_the_rate_and_one_burst_is_granted(steps: list[tuple[float, int]]) -> None:
    bucket, now_s, taken = TokenBucket(10, burst=10), 0.0, 0
    for pause_s, count in steps:
        now_s += pause_s
        if bucket.take_if_available(count, now_s) == 0:
            taken += count
        assert taken <= 10 + 10 * now_s + 1e-6


def test_a_clock_that_steps_back_adds_nothing() -> None:
    bucket = TokenBucket(4, burst=4)
    bucket.take(4, 100.0)
    assert bucket.level(0.0) == 0


def test_a_rate_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="per_s 0"):
        TokenBucket(0, burst=1)
