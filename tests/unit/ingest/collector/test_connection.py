from ingest.collector.connection import Pace
from ingest.collector.settings import Limits

LIMITS = Limits(patience_s=10, min_patience_bytes=100)


def test_patience_runs_out_for_a_client_that_trickles() -> None:
    pace = Pace(LIMITS)
    for _ in range(9):
        pace.note(received=1, waited_s=1)
    assert pace.remaining_s == 1
    pace.note(received=1, waited_s=5)
    assert pace.remaining_s == 0


def test_enough_bytes_buy_new_patience() -> None:
    pace = Pace(LIMITS)
    pace.note(received=99, waited_s=9)
    pace.note(received=1, waited_s=0.5)
    assert pace.remaining_s == 10


def test_time_that_was_not_spent_waiting_does_not_count() -> None:
    pace = Pace(LIMITS)
    pace.note(received=1, waited_s=0)
    assert pace.remaining_s == 10
