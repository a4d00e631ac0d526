"""What was handed over is neither lost nor read twice when the link breaks."""

from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Ledger, Message


def message(number: int, payload: bytes = b"1", *, again: bool = False) -> Message:
    return Message("t", payload, number, is_duplicate=again, is_retained=False)


def test_a_message_is_acknowledged_by_its_number_once_committed() -> None:
    ledger = Ledger()
    token = ledger.hand_over(message(7))
    assert token is not None
    assert ledger.commit(token, is_connected=True) == 7
    assert ledger.commit(token, is_connected=True) is None
    assert len(ledger) == 0


def test_a_message_that_comes_again_before_commit_is_not_handed_over_twice() -> None:
    ledger = Ledger()
    token = ledger.hand_over(message(7))
    assert ledger.hand_over(message(7, again=True)) is None
    assert token is not None
    assert ledger.commit(token, is_connected=True) == 7


def test_a_message_committed_while_the_link_was_down_is_known_when_it_comes_again() -> None:
    ledger = Ledger()
    token = ledger.hand_over(message(7))
    assert token is not None
    assert ledger.commit(token, is_connected=False) is None
    assert ledger.is_committed(message(7, again=True))
    assert not ledger.is_committed(message(7, again=True))  # its number is free for another


def test_another_message_under_an_old_number_is_not_taken_for_the_old_one() -> None:
    ledger = Ledger()
    token = ledger.hand_over(message(7, b"old"))
    assert token is not None
    assert ledger.hand_over(message(7, b"new", again=True)) is not None
    ledger.commit(token, is_connected=False)
    assert not ledger.is_committed(message(7, b"new", again=True))
    assert not ledger.is_committed(message(7, b"old"))


def test_what_waits_for_a_link_is_bounded() -> None:
    ledger = Ledger()
    for number in range(1, 3 * MAX_UNACKNOWLEDGED):
        token = ledger.hand_over(message(number))
        assert token is not None
        ledger.commit(token, is_connected=False)
    assert len(ledger._committed) == MAX_UNACKNOWLEDGED
