"""What was handed over is neither lost nor read twice when the link breaks."""

from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Ledger, Message


def message(number: int, payload: bytes = b"1", *, again: bool = False) -> Message:
    return Message("t", payload, number, is_duplicate=again, is_retained=False)


def handed_over(ledger: Ledger, message: Message) -> int:
    token = ledger.hand_over(message)
    assert token is not None
    return token


def test_a_message_is_acknowledged_by_its_number_once_committed() -> None:
    ledger = Ledger()
    token = handed_over(ledger, message(7))
    assert len(ledger) == 1
    assert ledger.commit([token]) == [7]
    assert ledger.commit([token]) == []
    assert len(ledger) == 0


def test_a_message_that_comes_again_before_commit_is_not_handed_over_twice() -> None:
    ledger = Ledger()
    token = handed_over(ledger, message(7))
    assert not ledger.is_committed(message(7, again=True))
    assert ledger.hand_over(message(7, again=True)) is None
    assert ledger.commit([token]) == [7]


def test_a_message_whose_acknowledgement_was_lost_is_known_however_often_it_comes() -> None:
    ledger = Ledger()
    ledger.commit([handed_over(ledger, message(7))])
    assert ledger.is_committed(message(7, again=True))
    assert ledger.is_committed(message(7, again=True))


def test_another_message_under_an_old_number_is_not_taken_for_the_old_one() -> None:
    ledger = Ledger()
    ledger.commit([handed_over(ledger, message(7, b"old"))])
    assert not ledger.is_committed(message(7, b"new", again=True))
    assert not ledger.is_committed(message(7, b"old"))
    assert not ledger.is_committed(message(7, b"old", again=True))


def test_two_messages_alike_but_for_their_numbers_are_two() -> None:
    ledger = Ledger()
    assert handed_over(ledger, message(7)) != handed_over(ledger, message(8))
    assert len(ledger) == 2


def test_what_is_remembered_is_bounded_and_the_latest_is_kept() -> None:
    ledger = Ledger()
    for number in range(1, 3 * MAX_UNACKNOWLEDGED):
        ledger.commit([handed_over(ledger, message(number))])
    assert len(ledger._committed) == MAX_UNACKNOWLEDGED
    assert ledger.is_committed(message(3 * MAX_UNACKNOWLEDGED - 1, again=True))
