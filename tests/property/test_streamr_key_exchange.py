"""Laws of the key exchange: whatever the network loses, repeats or reorders, no reader ends up with a wrong key."""

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_publisher import Answered, KeyPublisher, KeyRefused
from protocol.streamr.group_keys.key_subscriber import KeysConflicting, KeySubscriber
from protocol.streamr.group_keys.rsa import RsaKeyPair
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from tests.effort import effort
from tests.support.streamr_vectors import load_rsa_key_pair, load_vectors

PUBLISHER, SUBSCRIBER = Signer(b"\x01" * 32), Signer(b"\x02" * 32)
STREAM = "stream"
KEYS = [GroupKey(f"key-{n}", bytes([n]) * 32) for n in range(1, 5)]


@functools.cache
def rsa_key_pair() -> RsaKeyPair:
    return load_rsa_key_pair(load_vectors("rsa")[0]["privateKeyPem"])


def encrypted_with(key: GroupKey) -> StreamMessage:
    return StreamMessage(
        MessageID(STREAM, 0, 1, 0, PUBLISHER.address, "data"),
        "00" * 16,
        encryption_type=EncryptionType.AES,
        group_key_id=key.group_key_id,
    )


def speak(publisher: KeyPublisher, subscriber: KeySubscriber) -> list[StreamMessage]:
    """All that the publisher ever says: it is asked for every key, and rekeys in between."""
    publisher.add_key(STREAM, KEYS[0], MessageRef(0, 0))
    said: list[StreamMessage] = []
    for number, key in enumerate(KEYS):
        request = subscriber.request_keys(
            PUBLISHER.address, STREAM, f"request-{number}", number, group_key_ids=[key.group_key_id]
        )
        assert request is not None
        answer = publisher.answer(request, number)
        if isinstance(answer, Answered | KeyRefused):
            said.append(answer.message)
        if number + 1 < len(KEYS):
            said += publisher.rekey(STREAM, KEYS[number + 1], number)
    return said


@settings(deadline=None, max_examples=effort(test=10, soak=500))
@given(st.lists(st.integers(0, 2 * len(KEYS) - 2), max_size=12), st.booleans())
def test_subscriber_has_each_key_as_the_publisher_made_it_or_not_at_all(arrivals: list[int], is_allowed: bool) -> None:
    publisher = KeyPublisher(PUBLISHER, "chain", lambda *_: is_allowed)
    subscriber = KeySubscriber(SUBSCRIBER, "chain", rsa_key_pair())
    said = speak(publisher, subscriber)
    events = [event for place in arrivals if place < len(said) for event in subscriber.receive(said[place])]
    assert not any(isinstance(event, KeysConflicting) for event in events)
    held = [subscriber.key_for(encrypted_with(key)) for key in KEYS]
    assert all(found in (key, None) for found, key in zip(held, KEYS, strict=True))
    if not is_allowed:
        assert held == [None] * len(KEYS)


@settings(deadline=None, max_examples=effort(test=4, soak=200))
@given(st.permutations(range(2 * len(KEYS) - 1)))
def test_in_any_order_of_arrival_the_subscriber_gets_every_key(order: list[int]) -> None:
    publisher = KeyPublisher(PUBLISHER, "chain", lambda *_: True)
    subscriber = KeySubscriber(SUBSCRIBER, "chain", rsa_key_pair())
    said = speak(publisher, subscriber)
    assert len(said) == len(order)
    for place in order:
        subscriber.receive(said[place])
    assert [subscriber.key_for(encrypted_with(key)) for key in KEYS] == KEYS
    assert subscriber.next_deadline_ms is None
