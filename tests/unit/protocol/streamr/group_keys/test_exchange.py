"""Key exchange: both sides talk to each other, to what real clients wrote, and to liars."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from protocol.ethereum.signer import Signer
from protocol.streamr.group_keys.codec import parse_group_key_message
from protocol.streamr.group_keys.encryption import decrypt_message, encrypt_message
from protocol.streamr.group_keys.exchange import (
    MAX_KEYS_PER_RESPONSE,
    Ignored,
    Outbox,
    key_exchange_recipient,
    key_exchange_stream_id,
)
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_publisher import MAX_SUBSCRIBERS_PER_STREAM, Answered, KeyPublisher, KeyRefused
from protocol.streamr.group_keys.key_ring import KeyConflictError, KeyRing
from protocol.streamr.group_keys.key_subscriber import (
    MAX_KEY_RINGS,
    MAX_PENDING_REQUESTS,
    REQUEST_TIMEOUT_MS,
    KeysConflicting,
    KeysReceived,
    KeysRefused,
    KeySubscriber,
    PublisherStream,
    RequestTimedOut,
)
from protocol.streamr.group_keys.messages import (
    EncryptedKey,
    GroupKeyAnnounce,
    GroupKeyErrorResponse,
    GroupKeyRequest,
    GroupKeyResponse,
    KeyRange,
    TimedKeyErrorResponse,
    TimedKeyRequest,
    TimedKeyReset,
    TimedKeyResponse,
)
from protocol.streamr.group_keys.rsa import RsaKeyPair, RsaPublicKey
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import verify
from tests.support.streamr_vectors import load_rsa_key_pair, load_vectors

PUBLISHER = Signer(b"\x01" * 32)
SUBSCRIBER = Signer(b"\x02" * 32)
UNKNOWN = Signer(b"\x03" * 32)
STREAM = "stream"
SOURCE = PublisherStream(PUBLISHER.address, STREAM)
KEY_1, KEY_2, KEY_3 = (GroupKey(f"key-{n}", bytes([n]) * 32) for n in (1, 2, 3))
NOW_MS = 1_600_000_000_000
START = MessageRef(NOW_MS - 1_000, 0)
VECTORS = load_vectors("key_exchange_v32")
PEM: str = load_vectors("rsa")[0]["publicKeyPem"]


@functools.cache
def rsa_key_pair() -> RsaKeyPair:
    return load_rsa_key_pair(VECTORS[0]["privateKeyPem"])


def allow_subscriber(stream_id: str, address: str) -> bool:
    return stream_id == STREAM and address == SUBSCRIBER.address


def a_publisher(is_allowed: Callable[[str, str], bool] = allow_subscriber) -> KeyPublisher:
    publisher = KeyPublisher(PUBLISHER, "publisher-chain", is_allowed)
    publisher.add_key(STREAM, KEY_1, START)
    return publisher


def a_subscriber(version: int = 32, signer: Signer = SUBSCRIBER) -> KeySubscriber:
    return KeySubscriber(signer, "subscriber-chain", rsa_key_pair(), version=version)


def ask(
    subscriber: KeySubscriber, *group_key_ids: str, request_id: str = "request-1", **arguments: Any
) -> StreamMessage:
    message = subscriber.request_keys(
        PUBLISHER.address, STREAM, request_id, NOW_MS, group_key_ids=group_key_ids, **arguments
    )
    assert message is not None
    return message


def answered(publisher: KeyPublisher, request: StreamMessage) -> StreamMessage:
    answer = publisher.answer(request, NOW_MS + 100)
    assert isinstance(answer, Answered)
    return answer.message


def informed(version: int = 32) -> tuple[KeyPublisher, KeySubscriber]:
    """A publisher, and a subscriber that asked it for its first key and got it."""
    publisher, subscriber = a_publisher(), a_subscriber(version)
    subscriber.receive(answered(publisher, ask(subscriber, "key-1")))
    return publisher, subscriber


def content_of(message: StreamMessage) -> object:
    return parse_group_key_message(message.message_type, message.content)


def a_data_message(ref: MessageRef, content: str = '{"a":1}', version: int = 32) -> StreamMessage:
    return StreamMessage(
        message_id=MessageID(STREAM, 0, ref.timestamp, ref.sequence_number, PUBLISHER.address, "data"),
        content=content,
        version=version,
    )


class TestConversation:
    def test_subscriber_gets_the_keys_it_asks_for(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        request = ask(subscriber, "key-1", "key-9")
        assert request.message_id.stream_id == key_exchange_stream_id(PUBLISHER.address)
        assert verify(request)
        response = answered(publisher, request)
        assert response.message_id.stream_id == key_exchange_stream_id(SUBSCRIBER.address)
        assert (response.encryption_type, response.group_key_id) == (EncryptionType.RSA, PEM)
        assert subscriber.receive(response) == [KeysReceived(SOURCE, (KEY_1,))]
        assert subscriber.next_deadline_ms is None

    def test_version_31_gets_the_newest_key_or_those_of_a_time(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber(31)
        publisher.rekey(STREAM, KEY_2, NOW_MS)
        publisher.rekey(STREAM, KEY_3, NOW_MS + 1_000)
        newest = answered(publisher, ask(subscriber))
        assert newest.version == 31
        assert newest.group_key_id is None
        assert subscriber.receive(newest) == [KeysReceived(SOURCE, (GroupKey("", KEY_3.key),))]
        first_two = ask(subscriber, request_id="request-2", time_range=KeyRange(NOW_MS - 500, NOW_MS + 500))
        assert subscriber.receive(answered(publisher, first_two)) == [
            KeysReceived(SOURCE, (GroupKey("", KEY_1.key), GroupKey("", KEY_2.key)))
        ]
        for at_ms, key in (
            (NOW_MS - 1, KEY_1),
            (NOW_MS, KEY_2),
            (NOW_MS + 999, KEY_2),
            (NOW_MS + 1_000, KEY_3),
        ):
            found = subscriber.key_for(a_data_message(MessageRef(at_ms, 0), version=31))
            assert found == GroupKey("", key.key)

    def test_address_that_is_not_allowed_is_refused_with_the_reason(self) -> None:
        publisher, unknown = a_publisher(), a_subscriber(signer=UNKNOWN)
        answer = publisher.answer(ask(unknown, "key-1"), NOW_MS)
        assert isinstance(answer, KeyRefused)
        assert (answer.requester, answer.stream_id) == (UNKNOWN.address, STREAM)
        (event,) = unknown.receive(answer.message)
        assert event == KeysRefused(SOURCE, "INVALID_GROUP_KEY_REQUEST", answer.reason)
        assert unknown.next_deadline_ms is None

    def test_version_31_is_refused_with_its_own_error_message(self) -> None:
        publisher, unknown = a_publisher(), a_subscriber(31, UNKNOWN)
        answer = publisher.answer(ask(unknown), NOW_MS)
        assert isinstance(answer, KeyRefused)
        assert isinstance(content_of(answer.message), TimedKeyErrorResponse)
        (event,) = unknown.receive(answer.message)
        assert isinstance(event, KeysRefused)

    def test_key_of_a_stream_that_is_not_ours_is_refused_like_any_other(self) -> None:
        subscriber = a_subscriber()
        request = subscriber.request_keys(PUBLISHER.address, "other", "id", NOW_MS, group_key_ids=["key-1"])
        assert request is not None
        assert isinstance(a_publisher(lambda *_: True).answer(request, NOW_MS), KeyRefused)

    def test_keys_that_the_publisher_does_not_have_are_reported_behind_those_it_has(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        answer = publisher.answer(ask(subscriber, "key-9", "key-1", "key-8"), NOW_MS + 100)
        assert isinstance(answer, Answered)
        assert answer.error is not None
        assert verify(answer.error)
        assert answer.message.message_id.ref < answer.error.message_id.ref
        assert (answer.error.encryption_type, answer.error.group_key_id) == (EncryptionType.NONE, None)
        error = content_of(answer.error)
        assert isinstance(error, GroupKeyErrorResponse)
        assert (error.request_id, error.error_code) == ("request-1", "GROUP_KEY_NOT_FOUND")
        assert error.group_key_ids == ("key-9", "key-8")

    @pytest.mark.parametrize("is_overtaken", [False, True])
    def test_the_report_of_missing_keys_does_not_hide_those_that_were_found(self, is_overtaken: bool) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        answer = publisher.answer(ask(subscriber, "key-9", "key-1"), NOW_MS + 100)
        assert isinstance(answer, Answered)
        assert answer.error is not None
        received = [answer.error, answer.message] if is_overtaken else [answer.message, answer.error]
        events = [event for message in received for event in subscriber.receive(message)]
        assert KeysReceived(SOURCE, (KEY_1,)) in events
        assert subscriber.next_deadline_ms is None

    @pytest.mark.parametrize("version", [31, 32])
    def test_a_request_for_which_there_is_no_key_is_answered_by_the_error_alone(self, version: int) -> None:
        publisher, subscriber = a_publisher(), a_subscriber(version)
        request = ask(subscriber, "key-9", time_range=KeyRange(5, 6) if version == 31 else None)
        answer = publisher.answer(request, NOW_MS + 100)
        assert isinstance(answer, KeyRefused)
        error = content_of(answer.message)
        assert isinstance(error, GroupKeyErrorResponse | TimedKeyErrorResponse)
        assert subscriber.receive(answer.message) == [
            KeysRefused(SOURCE, "GROUP_KEY_NOT_FOUND", "the publisher has no such key")
        ]

    def test_a_request_for_no_key_at_all_is_answered_with_none(self) -> None:
        request = GroupKeyRequest(request_id="r", stream_id=STREAM, rsa_public_key=PEM, group_key_ids=())
        message = Outbox(SUBSCRIBER, "chain").post(request, PUBLISHER.address, NOW_MS, version=32)
        response = answered(a_publisher(), message)
        assert content_of(response) == GroupKeyResponse(request_id="r", stream_id=STREAM, group_keys=())

    @pytest.mark.parametrize("version", [31, 32])
    def test_everything_said_is_signed_and_strictly_ordered(self, version: int) -> None:
        publisher, subscriber = a_publisher(), a_subscriber(version)
        said = [
            answered(publisher, ask(subscriber, "key-1")),
            *publisher.rekey(STREAM, KEY_2, NOW_MS - 99_999),
        ]
        assert all(verify(message) for message in said)
        refs = [message.message_id.ref for message in said]
        assert refs == sorted(set(refs))


class TestRotation:
    @pytest.mark.parametrize("version", [31, 32])
    def test_reader_follows_from_key_to_key(self, version: int) -> None:
        publisher, subscriber = informed(version)
        publisher.rotate(STREAM, KEY_2)
        for sequence_number in range(4):
            ref = MessageRef(NOW_MS + 5_000, sequence_number)
            keys = publisher.take_keys(STREAM, ref)
            message = encrypt_message(a_data_message(ref, version=version), keys.key, bytes, next_key=keys.next_key)
            key = subscriber.key_for(message)
            assert key is not None
            assert key.key == (KEY_1 if sequence_number == 0 else KEY_2).key
            content, next_key = decrypt_message(message, key)
            assert content == '{"a":1}'
            assert (next_key is not None) == (sequence_number == 0)
            if next_key is not None:
                assert subscriber.learn_next_key(message, next_key) == [KeysReceived(SOURCE, (next_key,))]

    def test_next_key_is_included_in_one_message(self) -> None:
        publisher = a_publisher()
        publisher.rotate(STREAM, KEY_2)
        assert publisher.take_keys(STREAM, MessageRef(NOW_MS, 0)) == (KEY_1, KEY_2)
        assert publisher.take_keys(STREAM, MessageRef(NOW_MS, 1)) == (KEY_2, None)

    def test_next_key_is_used_even_if_the_clock_steps_back(self) -> None:
        publisher = a_publisher()
        publisher.rotate(STREAM, KEY_2)
        publisher.take_keys(STREAM, MessageRef(5, 0))
        assert publisher.take_keys(STREAM, MessageRef(6, 0)) == (KEY_2, None)

    def test_key_of_a_rotation_can_be_requested(self) -> None:
        publisher = a_publisher()
        publisher.rotate(STREAM, KEY_2)
        publisher.take_keys(STREAM, MessageRef(NOW_MS, 0))
        subscriber = a_subscriber()
        response = answered(publisher, ask(subscriber, "key-1", "key-2"))
        assert subscriber.receive(response) == [KeysReceived(SOURCE, (KEY_1, KEY_2))]

    def test_key_of_a_name_that_is_taken_is_refused(self) -> None:
        publisher = a_publisher()
        for change in (
            lambda: publisher.rotate(STREAM, KEY_1),
            lambda: publisher.rekey(STREAM, KEY_1, NOW_MS),
            lambda: publisher.add_key(STREAM, GroupKey("key-1", KEY_2.key), START),
        ):
            with pytest.raises(KeyConflictError, match="key-1"):
                change()

    def test_stream_without_a_key_cannot_encrypt_rotate_or_rekey(self) -> None:
        publisher = a_publisher()
        for change in (
            lambda: publisher.rotate("other", KEY_2),
            lambda: publisher.rekey("other", KEY_2, NOW_MS),
            lambda: publisher.take_keys("other", START),
        ):
            with pytest.raises(ValueError, match="other"):
                change()

    def test_publisher_names_its_keys(self) -> None:
        publisher, nameless = a_publisher(), GroupKey("", KEY_2.key)
        for change in (
            lambda: publisher.rotate(STREAM, nameless),
            lambda: publisher.rekey(STREAM, nameless, NOW_MS),
            lambda: publisher.add_key(STREAM, nameless, START),
        ):
            with pytest.raises(ValueError, match="group_key_id"):
                change()


class TestRekeying:
    @pytest.mark.parametrize("version", [31, 32])
    def test_new_key_is_announced_to_earlier_requesters(self, version: int) -> None:
        publisher, subscriber = informed(version)
        (announcement,) = publisher.rekey(STREAM, KEY_2, NOW_MS + 1_000)
        assert isinstance(content_of(announcement), GroupKeyAnnounce if version == 32 else TimedKeyReset)
        (event,) = subscriber.receive(announcement)
        assert isinstance(event, KeysReceived)
        assert [key.key for key in event.keys] == [KEY_2.key]
        assert publisher.take_keys(STREAM, MessageRef(NOW_MS + 1_000, 0)) == (KEY_2, None)

    def test_a_subscriber_that_is_no_longer_allowed_gets_no_new_key(self) -> None:
        allowed = {SUBSCRIBER.address}
        publisher, subscriber = a_publisher(lambda _, address: address in allowed), a_subscriber()
        answered(publisher, ask(subscriber, "key-1"))
        allowed.clear()
        assert publisher.rekey(STREAM, KEY_2, NOW_MS) == []
        assert isinstance(publisher.answer(ask(subscriber, "key-2", request_id="2"), NOW_MS), KeyRefused)

    def test_rotation_that_waits_is_off(self) -> None:
        publisher = a_publisher()
        publisher.rotate(STREAM, KEY_2)
        publisher.rekey(STREAM, KEY_3, NOW_MS)
        assert publisher.take_keys(STREAM, MessageRef(NOW_MS, 0)) == (KEY_3, None)

    def test_new_key_is_used_even_if_the_clock_stepped_back(self) -> None:
        publisher = a_publisher()
        publisher.rekey(STREAM, KEY_2, 5)
        assert publisher.take_keys(STREAM, MessageRef(6, 0)) == (KEY_2, None)

    def test_announcement_of_a_stream_we_have_no_key_of_is_ignored(self) -> None:
        publisher, _ = informed()
        (announcement,) = publisher.rekey(STREAM, KEY_2, NOW_MS)
        assert [type(event) for event in a_subscriber().receive(announcement)] == [Ignored]

    def test_publisher_remembers_a_bounded_number_of_subscribers(self) -> None:
        publisher = a_publisher(lambda *_: True)
        stream = publisher._streams[STREAM]
        answered(publisher, ask(a_subscriber(), "key-1"))
        entry = stream.subscribers[SUBSCRIBER.address]
        stream.subscribers.update({f"0x{n}": entry for n in range(MAX_SUBSCRIBERS_PER_STREAM - 1)})
        answered(publisher, ask(a_subscriber(signer=UNKNOWN), "key-1"))
        assert len(stream.subscribers) == MAX_SUBSCRIBERS_PER_STREAM
        assert SUBSCRIBER.address not in stream.subscribers


class TestRepeatsAndLies:
    def test_repeated_request_is_answered_again(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        request = ask(subscriber, "key-1")
        assert isinstance(publisher.answer(request, NOW_MS), Answered)
        assert isinstance(publisher.answer(request, NOW_MS), Answered)

    def test_repeated_answer_changes_nothing(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        response = answered(publisher, ask(subscriber, "key-1"))
        subscriber.receive(response)
        assert [type(event) for event in subscriber.receive(response)] == [Ignored]

    def test_response_that_contradicts_an_earlier_one_is_reported_and_the_earlier_key_stays(self) -> None:
        _, subscriber = informed()
        outbox = Outbox(PUBLISHER, "liar")
        false_key = EncryptedKey("key-1", RsaPublicKey(PEM).encrypt(KEY_2))
        lie = GroupKeyAnnounce(stream_id=STREAM, group_keys=(false_key,))
        received, conflict = subscriber.receive(outbox.post(lie, SUBSCRIBER.address, NOW_MS, version=32))
        assert received == KeysReceived(SOURCE, ())
        assert isinstance(conflict, KeysConflicting)
        message = encrypt_message(a_data_message(MessageRef(NOW_MS, 0)), KEY_1, bytes)
        assert subscriber.key_for(message) == KEY_1

    def test_two_keys_of_version_31_for_one_time_conflict(self) -> None:
        _, subscriber = informed(31)
        reset = TimedKeyReset(stream_id=STREAM, group_key=RsaPublicKey(PEM).encrypt(KEY_2), start=START.timestamp)
        message = Outbox(PUBLISHER, "chain").post(reset, SUBSCRIBER.address, NOW_MS, version=31)
        assert isinstance(subscriber.receive(message)[-1], KeysConflicting)

    def test_response_of_another_publisher_does_not_close_a_request(self) -> None:
        subscriber = a_subscriber()
        ask(subscriber, "key-1")
        response = GroupKeyResponse(request_id="request-1", stream_id=STREAM, group_keys=())
        forged = Outbox(UNKNOWN, "chain").post(response, SUBSCRIBER.address, NOW_MS, version=32)
        assert [type(event) for event in subscriber.receive(forged)] == [Ignored]
        assert subscriber.next_deadline_ms is not None

    def test_key_that_was_not_requested_is_ignored(self) -> None:
        subscriber = a_subscriber()
        ask(subscriber, "key-1")
        extra = EncryptedKey("key-2", RsaPublicKey(PEM).encrypt(KEY_2))
        response = GroupKeyResponse(request_id="request-1", stream_id=STREAM, group_keys=(extra,))
        message = Outbox(PUBLISHER, "chain").post(response, SUBSCRIBER.address, NOW_MS, version=32)
        assert subscriber.receive(message) == [KeysReceived(SOURCE, ())]

    def test_key_that_does_not_open_is_ignored_and_the_others_are_kept(self) -> None:
        subscriber = a_subscriber()
        ask(subscriber, "key-1", "key-2")
        keys = (EncryptedKey("key-1", "00" * 512), EncryptedKey("key-2", RsaPublicKey(PEM).encrypt(KEY_2)))
        response = GroupKeyResponse(request_id="request-1", stream_id=STREAM, group_keys=keys)
        message = Outbox(PUBLISHER, "chain").post(response, SUBSCRIBER.address, NOW_MS, version=32)
        received, ignored = subscriber.receive(message)
        assert received == KeysReceived(SOURCE, (KEY_2,))
        assert isinstance(ignored, Ignored)

    def test_old_clients_answer_without_the_request_id(self) -> None:
        subscriber = a_subscriber(31)
        ask(subscriber)
        outbox = Outbox(PUBLISHER, "chain")
        message = outbox.post(TimedKeyResponse(stream_id=STREAM, keys=()), SUBSCRIBER.address, NOW_MS, version=31)
        assert subscriber.receive(message) == [KeysReceived(SOURCE, ())]
        publisher = a_publisher()
        request = TimedKeyRequest(stream_id=STREAM, public_key=PEM)
        asked = Outbox(SUBSCRIBER, "chain").post(request, PUBLISHER.address, NOW_MS, version=31)
        assert isinstance(publisher.answer(asked, NOW_MS), Answered)

    def test_message_that_is_unsigned_forged_elsewhere_or_nonsense_is_ignored(self) -> None:
        request = ask(a_subscriber(), "key-1")
        on_another_stream = Outbox(SUBSCRIBER, "chain").post(
            GroupKeyRequest(request_id="", stream_id=STREAM, rsa_public_key=PEM, group_key_ids=()),
            UNKNOWN.address,
            NOW_MS,
            version=32,
        )
        own = ask(KeySubscriber(PUBLISHER, "chain", rsa_key_pair()), "key-1")
        for message in (
            request.replace(signature=None),
            request.replace(content=request.content.replace("key-1", "key-2")),
            on_another_stream,
            own,
            Outbox(SUBSCRIBER, "c").post(
                GroupKeyErrorResponse(
                    request_id="", stream_id=STREAM, error_code="", error_message="", group_key_ids=()
                ),
                PUBLISHER.address,
                NOW_MS,
                version=32,
            ),
            Outbox(SUBSCRIBER, "c").post(
                GroupKeyRequest(request_id="x" * 201, stream_id=STREAM, rsa_public_key=PEM, group_key_ids=()),
                PUBLISHER.address,
                NOW_MS,
                version=32,
            ),
        ):
            assert isinstance(a_publisher().answer(message, NOW_MS), Ignored)

    def test_request_with_a_bad_public_key_is_refused_with_the_reason(self) -> None:
        request = GroupKeyRequest(request_id="id", stream_id=STREAM, rsa_public_key="no key", group_key_ids=())
        message = Outbox(SUBSCRIBER, "chain").post(request, PUBLISHER.address, NOW_MS, version=32)
        answer = a_publisher().answer(message, NOW_MS)
        assert isinstance(answer, KeyRefused)
        assert "PEM" in answer.reason

    def test_request_for_too_many_keys_is_answered_as_far_as_the_limit(self) -> None:
        publisher = a_publisher()
        for n in range(MAX_KEYS_PER_RESPONSE + 10):
            publisher.add_key(STREAM, GroupKey(f"many-{n}", KEY_2.key), START)
        names = tuple(f"many-{n}" for n in range(MAX_KEYS_PER_RESPONSE + 10))
        request = GroupKeyRequest(request_id="id", stream_id=STREAM, rsa_public_key=PEM, group_key_ids=names)
        message = Outbox(SUBSCRIBER, "chain").post(request, PUBLISHER.address, NOW_MS, version=32)
        response = content_of(answered(publisher, message))
        assert isinstance(response, GroupKeyResponse)
        assert len(response.group_keys) == MAX_KEYS_PER_RESPONSE

    def test_subscriber_ignores_requests(self) -> None:
        request = Outbox(PUBLISHER, "chain").post(
            GroupKeyRequest(request_id="", stream_id=STREAM, rsa_public_key=PEM, group_key_ids=()),
            SUBSCRIBER.address,
            NOW_MS,
            version=32,
        )
        assert [type(event) for event in a_subscriber().receive(request)] == [Ignored]


class TestAsking:
    def test_request_without_an_answer_times_out_and_can_be_made_again(self) -> None:
        subscriber = a_subscriber()
        ask(subscriber, "key-1")
        assert subscriber.next_deadline_ms == NOW_MS + REQUEST_TIMEOUT_MS
        assert subscriber.tick(NOW_MS + REQUEST_TIMEOUT_MS - 1) == []
        assert subscriber.tick(NOW_MS + REQUEST_TIMEOUT_MS) == [RequestTimedOut(SOURCE, "request-1", ("key-1",))]
        assert subscriber.tick(NOW_MS + REQUEST_TIMEOUT_MS) == []
        ask(subscriber, "key-1")

    def test_key_is_not_requested_twice_nor_when_it_is_known(self) -> None:
        publisher, subscriber = a_publisher(), a_subscriber()
        request = ask(subscriber, "key-1", "key-2")
        again = functools.partial(subscriber.request_keys, PUBLISHER.address, STREAM)
        assert again("request-2", NOW_MS, group_key_ids=["key-1", "key-2"]) is None
        subscriber.receive(answered(publisher, request))
        assert again("request-3", NOW_MS, group_key_ids=["key-1"]) is None
        more = again("request-4", NOW_MS, group_key_ids=["key-1", "key-2"])
        assert more is not None
        assert '["key-2"]' in more.content

    def test_version_31_has_one_open_request_per_stream(self) -> None:
        subscriber = a_subscriber(31)
        ask(subscriber)
        assert subscriber.request_keys(PUBLISHER.address, STREAM, "request-2", NOW_MS) is None

    def test_open_requests_are_bounded(self) -> None:
        subscriber = a_subscriber()
        for n in range(MAX_PENDING_REQUESTS):
            ask(subscriber, f"key-{n}", request_id=f"request-{n}")
        assert subscriber.request_keys(PUBLISHER.address, STREAM, "more", NOW_MS, group_key_ids=["more"]) is None

    def test_version_without_key_exchange_is_refused(self) -> None:
        with pytest.raises(ValueError, match="version"):
            a_subscriber(30)

    def test_request_id_in_use_is_refused(self) -> None:
        subscriber = a_subscriber()
        ask(subscriber, "key-1")
        with pytest.raises(ValueError, match="request-1"):
            ask(subscriber, "key-2")

    def test_key_rings_are_bounded_and_the_oldest_goes(self) -> None:
        subscriber = a_subscriber()
        for n in range(MAX_KEY_RINGS + 1):
            message = a_data_message(START).replace(message_id=MessageID(f"s{n}", 0, 1, 0, PUBLISHER.address, "c"))
            subscriber.learn_next_key(message, KEY_1)
        assert len(subscriber._rings) == MAX_KEY_RINGS
        assert PublisherStream(PUBLISHER.address, "s0") not in subscriber._rings

    def test_message_of_an_unknown_stream_or_key_has_no_key(self) -> None:
        encrypted = encrypt_message(a_data_message(START), KEY_2, bytes)
        assert a_subscriber().key_for(encrypted) is None
        assert informed()[1].key_for(encrypted) is None


class TestRealClients:
    def test_conversation_that_a_real_client_wrote_is_understood(self) -> None:
        assert len(VECTORS) == 4
        request, response, announce, error = (parse_stream_message(vector["serialized"]) for vector in VECTORS)
        for vector, message in zip(VECTORS, (request, response, announce, error), strict=True):
            assert verify(message)
            assert message.message_id.publisher_id == vector["signer"].lower()
        subscriber = KeySubscriber(Signer(bytes(31) + b"\x01"), "subchain", rsa_key_pair())
        publisher_id = response.message_id.publisher_id
        source = PublisherStream(publisher_id, "stream-id")
        arguments = (publisher_id, "stream-id", "uuid-GroupKeyRequest1", 1_600_000_000_000)
        ours = subscriber.request_keys(*arguments, group_key_ids=["key-id-1"])
        assert ours is not None
        assert ours.serialize() == request.serialize()
        key = GroupKey("key-id-1", bytes.fromhex(VECTORS[1]["groupKeyHex"]))
        assert subscriber.receive(response) == [KeysReceived(source, (key,))]
        assert subscriber.receive(announce) == [KeysReceived(source, ())]
        assert [type(event) for event in subscriber.receive(error)] == [Ignored]
        subscriber.request_keys(*arguments, group_key_ids=["key-id-2"])
        assert subscriber.receive(error) == [KeysRefused(source, "UNEXPECTED_ERROR", "nope")]

    def test_request_that_a_real_client_wrote_is_answered(self) -> None:
        request = parse_stream_message(VECTORS[0]["serialized"])
        signer = Signer(bytes.fromhex("23bead9b499af21c4c16e4511b3b6b08c3e22e76e0591f5ab5ba8d4c3a5b1820"))
        publisher = KeyPublisher(signer, "pubchain", lambda *_: True)
        key = GroupKey("key-id-1", bytes(range(32)))
        publisher.add_key("stream-id", key, START)
        response = content_of(answered(publisher, request))
        assert isinstance(response, GroupKeyResponse)
        ((group_key_id, encrypted_hex),) = response.group_keys
        assert rsa_key_pair().decrypt(group_key_id, encrypted_hex) == key


class TestKeyRing:
    def test_oldest_keys_go_first(self) -> None:
        ring = KeyRing(max_keys=2)
        for n, key in enumerate((KEY_1, KEY_2, KEY_3)):
            assert ring.add(key, MessageRef(n, 0))
        assert (ring.named("key-1"), ring.named("key-3"), len(ring)) == (None, KEY_3, 2)

    def test_keys_are_found_by_time(self) -> None:
        ring = KeyRing()
        for start_ms, key in ((30, KEY_3), (10, KEY_1), (20, KEY_2)):
            ring.add(key, MessageRef(start_ms, 0))
        assert ring.holding_at(MessageRef(9, 9)) is None
        assert ring.holding_at(MessageRef(20, 0)) == KEY_2
        assert [held.key for held in ring.holding_between(0, 9)] == []
        assert [held.key for held in ring.holding_between(0, 10)] == [KEY_1]
        assert [held.key for held in ring.holding_between(15, 20)] == [KEY_1, KEY_2]
        assert [held.key for held in ring.holding_between(99, 99)] == [KEY_3]


def test_key_exchange_stream_is_named_by_the_lower_case_address() -> None:
    assert key_exchange_stream_id("0xAB") == "SYSTEM/keyexchange/0xab"
    assert key_exchange_recipient("SYSTEM/keyexchange/0xAB") == "0xab"
    assert key_exchange_recipient("stream") is None
