from random import Random

from hypothesis import given
from hypothesis import strategies as st

from node.peers.backoff import Backoff


@given(st.integers(0, 2**32))
def test_delays_double_up_to_the_longest_and_are_scattered_within_half_of_that(seed: int) -> None:
    backoff = Backoff(Random(seed), first_delay_s=1, longest_delay_s=8)
    for full_s in (1, 2, 4, 8, 8, 8):
        assert full_s / 2 <= backoff.next_delay_s() <= full_s


def test_after_a_success_delays_begin_anew() -> None:
    backoff = Backoff(Random(1), first_delay_s=1, longest_delay_s=100)
    for _ in range(5):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= 1
