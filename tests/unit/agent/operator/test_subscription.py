import base64
from itertools import count

import pytest

from agent.operator.contents import Locked, Opened, Unreadable
from agent.operator.subscription import (
    NOT_ANSWERED,
    AskResend,
    Broken,
    Lost,
    PublishKeyRequest,
    Subscription,
    Unverified,
)
from protocol.ethereum.signer import Signer
from protocol.iomessage import EMPTY_CHAIN, IoMessage, hash_link
from protocol.publisher_chain import REFRAMED
from protocol.streamr.group_keys.encryption import encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_publisher import Answered, KeyPublisher, KeyRefused
from protocol.streamr.group_keys.key_subscriber import KeySubscriber
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.ordering import OrderingRules
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.pack_samples import binary_content, json_content, linked_readings, signed_message
from tests.support.reframing import moved_before_publisher, moved_into_chain_id

NOW_MS = 1_700_000_000_000
STREAM = "0xp/s"
PUBLISHER, READER = Signer(b"\x07" * 32), Signer(b"\x21" * 32)
KEY = GroupKey("key", b"\x11" * 32)
CHAIN = "a-chain-id-of-20-chr"
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


def test_messages_are_delivered_in_order_whatever_order_they_arrive_in(subscription: Subscription) -> None:
    reported = [event for number in (0, 2, 1, 1, 3) for event in subscription.take(signed(number), NOW_MS)]
    assert reported == [Opened(signed(number), f'{{"n":{number}}}') for number in range(4)]


def test_an_unsigned_message_is_recognised_and_changes_nothing(subscription: Subscription) -> None:
    forged = signed(0).replace(content='{"n":9}')
    assert [type(event) for event in subscription.take(forged, NOW_MS)] == [Unverified]
    assert [type(event) for event in subscription.take(signed(0), NOW_MS)] == [Opened]


def reading(number: int, chain: str = CHAIN) -> StreamMessage:
    io = IoMessage(id=f"id {number}", timestamp=1, publisher="p", info_type="t", info_format="f", content_data=b"x")
    message_id = MessageID(STREAM, 0, NOW_MS + number, 10, PUBLISHER.address, chain)
    content = f'{{"ioMessage":"{base64.b64encode(hash_link(io, EMPTY_CHAIN).to_bytes()).decode()}"}}'
    return StreamMessage(message_id, content, prev_msg_ref=MessageRef(NOW_MS + number - 1, 10) if number else None)


def test_a_reading_with_its_previous_reference_moved_into_the_chain_id_is_not_believed(
    subscription: Subscription,
) -> None:
    true = sign_message(reading(1), PUBLISHER)
    cuts = [cut for cut in moved_into_chain_id(true) if cut.message_id.msg_chain_id != CHAIN]
    assert cuts
    for cut in cuts:
        (event,) = subscription.take(cut, NOW_MS)
        assert event == Unverified(cut, REFRAMED)
    assert [type(event) for event in subscription.take(true, NOW_MS)] == [Opened]


def test_an_encrypted_reading_is_judged_once_it_is_open(subscription: Subscription, rsa: RsaKeyPair) -> None:
    publisher = key_publisher()
    locked = encrypt_message(reading(0, "c" * 21), KEY, lambda n: bytes(n))
    subscription.take(sign_message(locked, PUBLISHER), NOW_MS)
    (request,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(request, PublishKeyRequest)
    answer = publisher.answer(request.message, NOW_MS)
    assert isinstance(answer, Answered)
    (event,) = subscription.take_key_message(answer.message, NOW_MS)
    assert isinstance(event, Unverified)


def test_the_same_reading_under_another_time_is_reported_once(subscription: Subscription) -> None:
    true = sign_message(reading(1), PUBLISHER)
    assert [type(event) for event in subscription.take(true, NOW_MS)] == [Opened]
    cuts = list(moved_before_publisher(true))
    assert any(cut.message_id.timestamp > true.message_id.timestamp for cut in cuts)
    for cut in cuts:
        reported = subscription.take(cut, NOW_MS) + subscription.tick(NOW_MS + 1000) + subscription.tick(NOW_MS + 2000)
        assert not [event for event in reported if isinstance(event, Opened)]


def test_a_pack_is_opened_with_all_its_readings(subscription: Subscription) -> None:
    readings = linked_readings(5)
    events = subscription.take(signed_message(binary_content(readings[:3])), NOW_MS)
    events += subscription.take(signed_message(json_content(readings[3:]), 1), NOW_MS)
    assert [type(event) for event in events] == [Opened, Opened]
    shown = [each.id for event in events if isinstance(event, Opened) for each in event.readings]
    assert shown == [each.id for each in readings]


def test_a_pack_that_skips_a_reading_breaks_the_hash_chain(subscription: Subscription) -> None:
    readings = linked_readings(6)
    assert [type(event) for event in subscription.take(signed_message(binary_content(readings[:2])), NOW_MS)] == [
        Opened
    ]
    broken, opened = subscription.take(signed_message(binary_content(readings[3:]), 1), NOW_MS)
    assert isinstance(broken, Broken)
    assert broken.reason.startswith("1 of 3 readings; reading 0 is missing: 1 messages, positions 2 to 2")
    assert isinstance(opened, Opened)
    assert len(opened.readings) == 3


def test_a_lost_message_is_a_gap_and_no_break_of_the_hash_chain(subscription: Subscription) -> None:
    readings = linked_readings(6)
    subscription.take(signed_message(binary_content(readings[:2])), NOW_MS)
    subscription.take(signed_message(binary_content(readings[4:]), 2), NOW_MS)
    events = subscription.tick(NOW_MS + 10) + subscription.tick(NOW_MS + 20)
    assert [type(event) for event in events] == [AskResend, Lost, Opened]


def test_a_pack_that_cannot_be_decoded_is_refused_and_those_after_it_are_read(subscription: Subscription) -> None:
    (refused,) = subscription.take(signed_message('{"ioMessages":"AAAA"}'), NOW_MS)
    assert isinstance(refused, Unreadable)
    assert "in a pack" in refused.reason
    events = subscription.take(signed_message(binary_content(linked_readings(2)), 1), NOW_MS)
    assert [type(event) for event in events] == [Opened]


def test_a_reframed_pack_is_not_believed(subscription: Subscription) -> None:
    true = signed_message(binary_content(linked_readings(3)), 1)
    cuts = [cut for cut in moved_into_chain_id(true) if cut.message_id.msg_chain_id != true.message_id.msg_chain_id]
    assert cuts
    assert all(subscription.take(cut, NOW_MS) == [Unverified(cut, REFRAMED)] for cut in cuts)
    assert [type(event) for event in subscription.take(true, NOW_MS)] == [Opened]
    for cut in moved_before_publisher(true):
        reported = subscription.take(cut, NOW_MS) + subscription.tick(NOW_MS + 1000) + subscription.tick(NOW_MS + 2000)
        assert not [event for event in reported if isinstance(event, Opened)]


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
    has_waited = subscription.needs_keys
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    assert (has_waited, subscription.needs_keys) == (True, False)
    assert subscription.take(encrypted(1), NOW_MS) == []
    assert subscription.take(signed(2), NOW_MS) == []
    answer = key_publisher().answer(asked.message, NOW_MS)
    assert isinstance(answer, Answered)
    reported = subscription.take_key_message(answer.message, NOW_MS)
    assert [event.content for event in reported if isinstance(event, Opened)] == [f'{{"n":{n}}}' for n in range(3)]


def test_a_key_that_was_delivered_is_used(subscription: Subscription, rsa: RsaKeyPair) -> None:
    subscription.take(encrypted(0, next_key=(following := GroupKey("next", b"\x12" * 32))), NOW_MS)
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    answer = key_publisher().answer(asked.message, NOW_MS)
    assert isinstance(answer, Answered)
    subscription.take_key_message(answer.message, NOW_MS)
    assert [type(event) for event in subscription.take(encrypted(1, following), NOW_MS)] == [Opened]


def test_what_still_waits_at_the_end_is_reported(subscription: Subscription, rsa: RsaKeyPair) -> None:
    waiting = [encrypted(0), encrypted(1, GroupKey("other", b"\x12" * 32)), signed(2), signed(4)]
    for message in waiting:
        subscription.take(message, NOW_MS)
    subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    reported = subscription.finish(NOW_MS)
    assert [type(event) for event in reported] == [Lost, Locked, Locked, Opened, Opened]
    assert {event.reason for event in reported if isinstance(event, Locked)} == {NOT_ANSWERED}
    assert subscription.finish(NOW_MS) == []


def test_given_keys_open_without_asking(rsa: RsaKeyPair) -> None:
    following = GroupKey("next", b"\x12" * 32)
    subscription = Subscription(lambda: "request", RULES, {KEY.group_key_id or "": KEY})
    messages = [encrypted(0, next_key=following), encrypted(1, following)]
    reported = [event for message in messages for event in subscription.take(message, NOW_MS)]
    assert [type(event) for event in reported] == [Opened, Opened]
    assert not subscription.needs_keys


def test_without_a_key_file_nothing_waits(subscription: Subscription) -> None:
    subscription.take(encrypted(0), NOW_MS)
    assert [type(event) for event in subscription.use_keys(None, NOW_MS)] == [Locked]
    assert [type(event) for event in subscription.take(encrypted(1), NOW_MS)] == [Locked]


def test_a_refusal_is_reported_and_remembered(subscription: Subscription, rsa: RsaKeyPair) -> None:
    subscription.take(encrypted(0), NOW_MS)
    (asked,) = subscription.use_keys(KeySubscriber(READER, "chain", rsa), NOW_MS)
    assert isinstance(asked, PublishKeyRequest)
    answer = key_publisher(allowed=False).answer(asked.message, NOW_MS)
    assert isinstance(answer, KeyRefused)
    (locked,) = subscription.take_key_message(answer.message, NOW_MS)
    assert isinstance(locked, Locked)
    assert "refused the key" in locked.reason
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
