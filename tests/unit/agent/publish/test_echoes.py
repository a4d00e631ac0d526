from agent.publish.contract import Acknowledged, RejectedRun
from agent.publish.echoes import EchoSettings, EchoTracker, message_key
from protocol.streamr.ids import MessageID
from tests.support.publish_records import record

SETTINGS = EchoSettings(first_timeout_s=1, timeout_s=5, max_sends=3)


def key(number: int, chain: str = "c") -> MessageID:
    return MessageID("s", 0, 1_000 + number, 0, "0xp", chain)


def tracker_with(*numbers: int, now_s: float = 0.0) -> EchoTracker:
    tracker = EchoTracker(SETTINGS)
    for number in numbers:
        tracker.add(record(number), key(number), now_s)
    return tracker


def test_an_echo_is_proof_once() -> None:
    tracker = tracker_with(1)
    assert tracker.prove(key(1)) == Acknowledged(0, 1, 1)
    assert tracker.prove(key(1)) is None
    assert tracker.prove(key(2)) is None
    assert len(tracker) == 0


def test_a_refusal_ends_the_wait() -> None:
    tracker = tracker_with(1)
    assert tracker.refuse(0, 1, "no") == RejectedRun(0, 1, 1, "no")
    assert tracker.refuse(0, 1, "no") is None
    assert tracker.prove(key(1)) is None


def test_what_is_overdue_is_looked_for_once_per_chain() -> None:
    tracker = tracker_with(1, 2, 3)
    assert tracker.ask(0.9) == []
    (question,) = tracker.ask(1.0)
    assert (question.first, question.last) == (key(1).ref, key(3).ref)
    assert tracker.ask(1.1) == []


def test_an_echo_makes_the_wait_for_its_chain_longer() -> None:
    tracker = tracker_with(1)
    tracker.prove(key(1))
    tracker.add(record(2), key(2), 0.0)
    tracker.add(record(3), key(3, "other"), 0.0)
    assert [question.chain.chain for question in tracker.ask(1.0)] == ["other"]
    assert [question.chain.chain for question in tracker.ask(5.0)] == ["c"]


def test_what_the_storage_does_not_have_is_sent_again_and_at_last_given_up() -> None:
    tracker = tracker_with(1, 2)
    (question,) = tracker.ask(1.0)
    tracker.prove(key(2))
    assert tracker.answer(question.number, 2.0) == [record(1)]
    (question,) = tracker.ask(7.0)
    assert tracker.answer(question.number, 7.0) == [record(1)]
    (question,) = tracker.ask(12.0)
    (given_up,) = tracker.answer(question.number, 12.0)
    assert isinstance(given_up, RejectedRun)
    assert "3 times" in given_up.reason
    assert len(tracker) == 0


def test_a_node_that_answers_nothing_is_noticed() -> None:
    tracker = tracker_with(1)
    tracker.ask(1.0)
    assert not tracker.is_unanswered(5.9)
    assert tracker.is_unanswered(6.0)


def test_publishers_are_the_same_in_any_case() -> None:
    assert message_key(MessageID("s", 0, 1, 2, "0xAB", "c")) == MessageID("s", 0, 1, 2, "0xab", "c")
