"""The token bucket."""

import pytest

from node.throttle import Throttle


def test_a_burst_passes_and_what_comes_after_it_waits_in_turn() -> None:
    throttle = Throttle(10, burst=2)

    assert [throttle.take(0.0) for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])


def test_tokens_come_back_with_time_but_never_more_than_a_burst() -> None:
    throttle = Throttle(10, burst=2)
    for _ in range(2):
        throttle.take(0.0)

    assert throttle.take(0.1) == 0
    assert [throttle.take(100.0) for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_who_does_not_wait_gives_the_token_back() -> None:
    throttle = Throttle(1, burst=1)
    throttle.take(0.0)
    for _ in range(100):
        assert throttle.take(0.0) > 0
        throttle.refund()

    assert throttle.take(1.0) == 0
