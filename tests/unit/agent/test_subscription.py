from itertools import count

import pytest

from agent.subscription import AskResend, Locked, Lost, Opened, PublishKeyRequest, Subscription, Unverified
from protocol.streamr import (
    GroupKey,
    MessageID,
    MessageRef,
    OrderingRules,
    RsaKeyPair,
    Signer,
    StreamMessage,
    encrypt_message,
    sign_message,
)
from protocol.streamr.key_exchange import Answered, KeyPublisher, KeySubscriber, Refused

NOW_MS = 1_700_000_000_000
STREAM = "0xp/s"
PUBLISHER, READER = Signer(b"\x07" * 32), Signer(b"\x21" * 32)
KEY = GroupKey("key", b"\x11" * 32)
RULES = OrderingRules(propagation_timeout_ms=10, resend_timeout_ms=10, max_gap_requests=1)


@pytest.fixture(scope="module")
def rsa() -> RsaKeyPair:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return RsaKeyPair(rsa.generate_private_key(65537, 2048))  # the smallest taken: it is made in no time


@pytest.fixture
def subscription() -> Subscription:
    numbers = count()
    return Subscription(lambda: f"request {next(numbers)}", RULES)


def plain(number: int) -> StreamMessage:
    previous = MessageRef(NOW_MS + number - 1, 0) if number else None
    message_id = MessageID(STREAM, 0, NOW_MS + number, 0, PUBLISHER.address, "c")
    return StreamMessage(message_id, f'{{"n":{number}}}', prev_msg_ref=previous)


def signed(number: int) -> StreamMessage:
    return sign_message(plain(number), PUBLISHER)


def encrypted(number: int, key: GroupKey = KEY, next_key: GroupKey | None = None) -> StreamMessage:
    return sign_message(encrypt_message(plain(number), key, lambda n: bytes(n), next_key=next_key), PUBLISHER)


def key_publisher(*, allowed: bool = True) -> KeyPublisher:
    publisher = KeyPublisher(PUBLISHER, "chain", lambda _stream, _address: allowed)
    publisher.add_key(STREAM, KEY, MessageRef(0, 0))
    return publisher


def test_messages_are_told_in_order_whatever_order_they_come_in(subscription: Subscription) -> None:
    told = [event for number in (0, 2, 1, 1, 3) for event in subscription.take(signed(number), NOW_MS)]
    assert told == [Opened(signed(number), f'{{"n":{number}}}') for number in range(4)]


def test_a_message_nobody_signed_is_told_apart_and_moves_nothing(subscription: Subscription) -> None:
    forged = signed(0).replace(content='{"n":9}')
    assert [type(event) for event in subscription.take(forged, NOW_MS)] == [Unverified]
    assert [type(event) for event in subscription.take(signed(0), NOW_MS)] == [Opened]


def test_a_gap_is_asked_for_and_at_last_given_up(subscription: Subscription) -> None:
    subscription.take(signed(0), NOW_MS)
    assert subscription.take(signed(3), NOW_MS) == []
    assert subscription.next_deadline_ms == NOW_MS + 10
    (asked,) = subscription.tick(NOW_MS + 10)
    assert isinstance(asked, AskResend)
    assert (asked.gap.from_ref.timestamp, asked.gap.to_ref.timestamp) == (NOW_MS, NOW_MS + 2)
    lost, opened = subscription.tick(NOW_MS + 20)
    assert isinstance(lost, Lost)
    assert opened == Opened(signed(3), '{"n":3}')


def test_an_encrypted_message_waits_for_its_key_and_others_behind_it(
    subscription: Subscription, rsa: RsaKeyPair
) -> None:
    assert subscription.take(encrypted(0), NOW_MS) == []
    has_waited = subscription.wants_keys
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    assert (has_waited, subscription.wants_keys) == (True, False)
    assert subscription.take(encrypted(1), NOW_MS) == []
    assert subscription.take(signed(2), NOW_MS) == []
    answer = key_publisher().answer(asked.message, NOW_MS)
    assert isinstance(answer, Answered)
    told = subscription.take_key_message(answer.message, NOW_MS)
    assert [event.content for event in told if isinstance(event, Opened)] == [f'{{"n":{n}}}' for n in range(3)]


def test_a_key_that_was_handed_over_is_used(subscription: Subscription, rsa: RsaKeyPair) -> None:
    subscription.take(encrypted(0, next_key=(following := GroupKey("next", b"\x12" * 32))), NOW_MS)
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    answer = key_publisher().answer(asked.message, NOW_MS)
    assert isinstance(answer, Answered)
    subscription.take_key_message(answer.message, NOW_MS)
    assert [type(event) for event in subscription.take(encrypted(1, following), NOW_MS)] == [Opened]


def test_without_a_key_file_nothing_waits(subscription: Subscription) -> None:
    subscription.take(encrypted(0), NOW_MS)
    assert [type(event) for event in subscription.use_keys(None, NOW_MS)] == [Locked]
    assert [type(event) for event in subscription.take(encrypted(1), NOW_MS)] == [Locked]


def test_a_refusal_is_told_and_remembered(subscription: Subscription, rsa: RsaKeyPair) -> None:
    subscription.take(encrypted(0), NOW_MS)
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    answer = key_publisher(allowed=False).answer(asked.message, NOW_MS)
    assert isinstance(answer, Refused)
    (locked,) = subscription.take_key_message(answer.message, NOW_MS)
    assert isinstance(locked, Locked)
    assert "gives us no key" in locked.reason
    assert [type(event) for event in subscription.take(encrypted(1), NOW_MS)] == [Locked]


def test_a_publisher_that_does_not_answer_is_not_waited_for_for_ever(
    subscription: Subscription, rsa: RsaKeyPair
) -> None:
    subscription.take(encrypted(0), NOW_MS)
    subscription.use_keys(KeySubscriber(READER, "chain", rsa, request_timeout_ms=100), NOW_MS)
    assert subscription.next_deadline_ms == NOW_MS + 100
    (locked,) = subscription.tick(NOW_MS + 100)
    assert isinstance(locked, Locked)
    assert [type(event) for event in subscription.take(encrypted(1), NOW_MS + 101)] == [PublishKeyRequest]
