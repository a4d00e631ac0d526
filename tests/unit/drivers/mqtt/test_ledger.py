"""What was received is neither lost nor read twice when the link breaks."""

from drivers.mqtt.ledger import HALF_ROUND, Ledger, Message


def message(number: int, payload: bytes = b"1", *, again: bool = False) -> Message:
    return Message("t", payload, number, is_duplicate=again, is_retained=False)


def receive(ledger: Ledger, *messages: Message) -> list[int | None]:
    """The tokens of what is received; all of it is."""
    known: list[int] = []
    received = list(ledger.receive(messages, known))
    assert [message for message, _ in received] == list(messages)
    assert known == []
    return [token for _, token in received]


def commit(ledger: Ledger, *messages: Message) -> list[int]:
    return ledger.commit([token for token in receive(ledger, *messages) if token is not None])


def known_of(ledger: Ledger, *messages: Message) -> list[int]:
    """The numbers of those that are committed already; none is received."""
    known: list[int] = []
    assert list(ledger.receive(messages, known)) == []
    return known


def test_a_message_is_acknowledged_by_its_number_once_committed() -> None:
    ledger = Ledger()
    (token,) = receive(ledger, message(7))
    assert token is not None
    assert len(ledger) == 1
    assert ledger.commit([token]) == [7]
    assert ledger.commit([token]) == []
    assert len(ledger) == 0


def test_a_message_that_comes_again_before_commit_is_not_received_twice() -> None:
    ledger = Ledger()
    (token,) = receive(ledger, message(7))
    assert known_of(ledger, message(7, again=True)) == []
    assert token is not None
    assert ledger.commit([token]) == [7]


def test_a_message_whose_acknowledgement_was_lost_is_known_however_often_it_comes() -> None:
    ledger = Ledger()
    commit(ledger, message(7))
    assert known_of(ledger, message(7, again=True), message(7, again=True)) == [7, 7]
    assert len(ledger) == 0


def test_another_message_under_an_old_number_is_not_taken_for_the_old_one() -> None:
    ledger = Ledger()
    commit(ledger, message(7, b"old"))
    receive(ledger, message(7, b"new", again=True))
    receive(ledger, message(7, b"old"))
    assert known_of(ledger, message(7, b"old", again=True)) == []  # of the new one, which is under way


def test_two_messages_alike_but_for_their_numbers_are_two() -> None:
    ledger = Ledger()
    assert len(set(receive(ledger, message(7), message(8)))) == 2
    assert len(ledger) == 2


def test_a_message_that_requires_no_acknowledgement_has_no_token_and_is_not_remembered() -> None:
    ledger = Ledger()
    assert receive(ledger, message(0), message(0)) == [None, None]
    assert len(ledger) == 0


def test_of_many_only_those_that_are_known_are_left_out() -> None:
    ledger, known = Ledger(), list[int]()
    commit(ledger, message(1))
    receive(ledger, message(2))
    messages = [message(1, again=True), message(2, again=True), message(3, again=True), message(4)]
    assert [each for each, _ in ledger.receive(messages, known)] == messages[2:]
    assert known == [1]


def test_a_number_is_forgotten_before_the_broker_uses_it_again() -> None:
    """A broker counts upwards and around: half a round later the number of a committed message may be another's."""
    ledger = Ledger()
    for number in range(1, HALF_ROUND + 8):
        commit(ledger, message(number))
    assert known_of(ledger, message(8, again=True)) == [8]
    receive(ledger, message(7, again=True))


def test_a_driver_that_continues_reads_again_what_was_not_committed_and_nothing_else() -> None:
    ledger = Ledger()
    commit(ledger, message(1))
    receive(ledger, message(2))
    ledger.drop_uncommitted()
    ledger.connected(session_is_resumed=True)
    assert known_of(ledger, message(1, again=True)) == [1]
    receive(ledger, message(2, again=True))


def test_a_message_of_a_lost_session_is_not_acknowledged_in_the_next() -> None:
    ledger = Ledger()
    (old,) = receive(ledger, message(2, b"2000"))
    ledger.connected(session_is_resumed=False)
    (new,) = receive(ledger, message(2, b"3000"))
    assert old is not None
    assert new is not None
    assert ledger.commit([old]) == []
    assert ledger.commit([new]) == [2]


def test_what_was_committed_in_a_lost_session_is_not_known_in_the_next() -> None:
    ledger = Ledger()
    commit(ledger, message(7))
    ledger.connected(session_is_resumed=False)
    receive(ledger, message(7, again=True))


def test_after_a_reconnection_a_message_is_acknowledged_only_when_it_was_delivered_again() -> None:
    ledger = Ledger()
    first, second = receive(ledger, message(1), message(2))
    assert first is not None
    assert second is not None
    ledger.connected(session_is_resumed=True)
    assert len(ledger) == 2
    assert ledger.commit([first]) == []  # the broker has not sent it over this connection
    assert known_of(ledger, message(1, again=True), message(2, again=True)) == [1]
    assert ledger.commit([second]) == [2]
    assert len(ledger) == 0


def test_under_a_broker_that_uses_numbers_at_once_again_words_alike_are_rather_read_twice_than_not_at_all() -> None:
    ledger = Ledger()
    commit(ledger, message(1))
    commit(ledger, message(1))  # the next message, with the same words
    ledger.connected(session_is_resumed=True)
    receive(ledger, message(1, again=True))  # may be a third one, whose first delivery was lost
