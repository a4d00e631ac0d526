"""How long a client may take for a body."""

from runtime.http import HttpLimits
from runtime.http.connection import Patience

LIMITS = HttpLimits(body_timeout_s=10, min_body_bytes=100)


def test_patience_runs_out_for_a_client_that_trickles() -> None:
    patience = Patience(LIMITS)
    for _ in range(9):
        patience.note(received=1, waited_s=1)
    assert patience.remaining_s == 1
    patience.note(received=1, waited_s=5)
    assert patience.remaining_s == 0


def test_enough_bytes_buy_new_patience() -> None:
    patience = Patience(LIMITS)
    patience.note(received=99, waited_s=9)
    patience.note(received=1, waited_s=0.5)
    assert patience.remaining_s == 10


def test_time_that_was_not_spent_waiting_does_not_count() -> None:
    patience = Patience(LIMITS)
    patience.note(received=1, waited_s=0)
    assert patience.remaining_s == 10
