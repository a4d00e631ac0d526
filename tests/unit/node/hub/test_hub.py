"""From publishing to subscribers, on a real disk."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.admission import Admission
from node.counters import Counters
from node.errors import ErrorCode, Refused, StorageError
from node.hub.hub import MAX_BATCH_CHARACTERS, MAX_PENDING_MESSAGES, Hub
from node.limits import Holder, Limits
from node.permissions.registry import Registry
from node.serialization import BroadcastRun
from node.storage import ResendLast, Storage
from node.streams import KEY_EXCHANGE_PREFIX, PUBLIC, Grant, Operation, StreamPart
from protocol.streamr.stream_message import MessageType, StreamMessage
from tests.support.node_samples import ALICE, BOB, NOW_MS, STREAM_ID, a_message, a_signed_message, a_stream
from tests.support.within import within

PART = StreamPart(STREAM_ID, 0)


class Inbox:
    """A subscriber that keeps what it gets."""

    def __init__(self) -> None:
        self.messages: list[StreamMessage] = []
        self.runs = 0

    def deliver(self, run: BroadcastRun) -> None:
        self.runs += 1
        self.messages += [broadcast.message for broadcast in run.broadcasts]


class Bench:
    """A hub with one stream of Alice's, and everything around it."""

    def __init__(self, directory: Path) -> None:
        self.storage = Storage(directory)
        self.registry = Registry(self.storage, Limits())
        self.counters = Counters()
        self.hub = Hub(self.storage, Admission(self.registry, lambda: NOW_MS), self.counters)
        self.inbox = Inbox()
        asyncio.run(self.registry.create(a_stream(), Holder(ALICE.address, "")))
        self.hub.subscribe(PART, self.inbox)

    def publish(self, *messages: StreamMessage, user: str = PUBLIC) -> None:
        for message in messages:
            self.hub.publish(message, user)
        asyncio.run(self.hub.store_pending())

    def stored(self) -> int:
        async def count() -> int:
            return sum([len(page) async for page in self.storage.resend(PART, ResendLast(count=1000))])

        return asyncio.run(count())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.storage.close()


def test_a_message_reaches_subscribers_only_after_it_is_stored(bench: Bench) -> None:
    bench.hub.publish(a_signed_message(), PUBLIC)
    assert bench.inbox.messages == []

    asyncio.run(bench.hub.store_pending())
    assert bench.inbox.messages == [a_signed_message()]
    assert bench.stored() == 1


def test_duplicates_and_late_messages_are_dropped_silently(bench: Bench) -> None:
    bench.publish(a_signed_message(1), a_signed_message(3), a_signed_message(3), a_signed_message(2))

    assert bench.inbox.messages == [a_signed_message(1), a_signed_message(3)]
    assert bench.counters.duplicates == 2


def test_a_declared_gap_may_be_filled_late(bench: Bench) -> None:
    bench.publish(a_signed_message(1), a_signed_message(3, previous=2), a_signed_message(2, previous=1))

    assert len(bench.inbox.messages) == 3


def test_what_an_earlier_run_stored_is_a_duplicate_too(bench: Bench, tmp_path: Path) -> None:
    bench.publish(a_signed_message())
    bench.storage.close()
    again = Bench.__new__(Bench)
    again.storage = bench.storage = Storage(tmp_path)
    again.registry = Registry(again.storage, Limits())
    again.counters, again.inbox = Counters(), Inbox()
    again.hub = Hub(again.storage, Admission(again.registry, lambda: NOW_MS), again.counters)
    again.hub.subscribe(PART, again.inbox)
    again.publish(a_signed_message())

    assert again.inbox.messages == []
    assert again.counters.duplicates == 1


def test_a_forged_signature_is_refused_and_does_not_spoil_the_chain(bench: Bench) -> None:
    forged = a_signed_message(5).replace(content='{"n":"forged"}')
    with pytest.raises(Refused, match="signature is not valid"):
        bench.publish(forged)
    bench.publish(a_signed_message(1))

    assert bench.inbox.messages == [a_signed_message(1)]


def test_a_signed_message_belongs_to_its_signer_whatever_user_sends_it(bench: Bench) -> None:
    bench.publish(a_signed_message(), user=BOB.address)
    with pytest.raises(Refused) as refused:
        bench.publish(a_signed_message(signer=BOB), user=ALICE.address)

    assert refused.value.code is ErrorCode.PERMISSION_DENIED


def test_an_unsigned_message_needs_a_user_with_permission_to_publish(bench: Bench) -> None:
    bench.publish(a_message(), user=ALICE.address)
    for user in (PUBLIC, BOB.address):
        with pytest.raises(Refused):
            bench.publish(a_message(publisher="", chain="x"), user=user)


def test_the_public_may_publish_where_it_was_granted(bench: Bench) -> None:
    asyncio.run(bench.registry.grant(Grant(STREAM_ID, PUBLIC, Operation.PUBLISH), by=ALICE.address))
    bench.publish(a_message(publisher=""), user=PUBLIC)

    assert len(bench.inbox.messages) == 1


def test_an_unsigned_message_of_another_publisher_is_refused_even_on_a_public_stream(bench: Bench) -> None:
    asyncio.run(bench.registry.grant(Grant(STREAM_ID, PUBLIC, Operation.PUBLISH), by=ALICE.address))
    with pytest.raises(Refused) as refused:
        bench.publish(a_message(publisher=ALICE.address), user=BOB.address)

    assert refused.value.code is ErrorCode.PERMISSION_DENIED


def test_messages_to_unknown_streams_are_refused(bench: Bench) -> None:
    with pytest.raises(Refused) as refused:
        bench.publish(a_signed_message(stream_id="unknown"))

    assert refused.value.code is ErrorCode.NOT_FOUND


def test_key_exchange_messages_are_passed_on_at_once_and_never_stored(bench: Bench) -> None:
    part = StreamPart(KEY_EXCHANGE_PREFIX + BOB.address, 0)
    bench.hub.subscribe(part, bench.inbox)
    request = a_signed_message(stream_id=part.stream_id, message_type=MessageType.GROUP_KEY_REQUEST)
    bench.hub.publish(request, PUBLIC)

    assert bench.inbox.messages == [request]
    assert bench.hub.pending_messages == 0


def test_a_message_of_version_31_is_kept_and_passed_on_as_it_is(bench: Bench) -> None:
    old = a_signed_message(version=31)
    bench.publish(old)

    assert bench.inbox.messages == [old]


def test_a_failing_disk_is_reported_to_the_publisher_and_the_message_may_be_sent_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[StorageError | Refused | None] = []

    async def fail(*_: object) -> list[bool]:
        raise StorageError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(bench.storage, "append", fail)
        bench.hub.publish(a_signed_message(), PUBLIC, done=reported.append)
        asyncio.run(bench.hub.store_pending())
    assert isinstance(reported[0], StorageError)
    assert bench.inbox.messages == []
    assert bench.counters.storage_failing

    bench.publish(a_signed_message())
    assert bench.inbox.messages == [a_signed_message()]
    assert not bench.counters.storage_failing


def test_publishers_wait_while_too_much_is_pending(bench: Bench) -> None:
    for n in range(MAX_PENDING_MESSAGES):
        bench.hub.publish(a_message(n), ALICE.address)

    async def wait_briefly() -> bool:
        try:
            await within(0.01, bench.hub.wait_for_space())
        except TimeoutError:
            return True
        return False

    assert asyncio.run(wait_briefly())


def test_messages_that_follow_each_other_in_a_partition_are_passed_on_together(bench: Bench) -> None:
    asyncio.run(bench.registry.change(a_stream(partitions=2), by=ALICE.address))
    messages = [a_message(n, partition=partition) for n, partition in enumerate((0, 0, 0, 1, 0, 1))]
    second = Inbox()
    for partition in (0, 1):
        bench.hub.subscribe(StreamPart(STREAM_ID, partition), second)
    bench.publish(*messages, user=ALICE.address)

    assert (second.messages, second.runs) == (messages, 4)
    assert bench.inbox.messages == [message for message in messages if message.message_id.stream_partition == 0]


def test_no_batch_is_larger_than_subscribers_can_take_at_once(bench: Bench) -> None:
    padding = "x" * (MAX_BATCH_CHARACTERS // 3)
    messages = [a_message(n).replace(content=json.dumps(padding * (4 if n == 5 else 1))) for n in range(8)]
    bench.publish(*messages, user=ALICE.address)

    assert bench.inbox.messages == messages
    assert bench.inbox.runs == 5  # 0 and 1, 2 and 3, 4, 5, which is too large by itself, 6 and 7


def test_listeners_hear_every_message_with_its_source(bench: Bench) -> None:
    heard: list[tuple[StreamMessage, object]] = []
    bench.hub.listen_to_messages(lambda broadcast, source: heard.append((broadcast.message, source)))
    bench.publish(a_signed_message(1))

    assert bench.hub.publish_relayed(a_signed_message(2), "neighbour")
    assert not bench.hub.publish_relayed(a_signed_message(2), "another")
    asyncio.run(bench.hub.store_pending())
    assert heard == [(a_signed_message(1), None), (a_signed_message(2), "neighbour")]


def test_listeners_are_notified_of_the_first_and_the_last_subscriber(bench: Bench) -> None:
    heard: list[tuple[StreamPart, bool]] = []
    bench.hub.listen_to_interest(lambda part, interested: heard.append((part, interested)))
    other, second = StreamPart("other", 0), Inbox()
    bench.hub.subscribe(other, bench.inbox)
    bench.hub.subscribe(other, second)
    bench.hub.unsubscribe(other, bench.inbox)
    bench.hub.unsubscribe(other, second)
    bench.hub.unsubscribe(other, second)

    assert heard == [(other, True), (other, False)]


def test_a_node_that_starts_knows_what_it_stored_and_takes_what_it_missed(tmp_path: Path) -> None:
    before = Bench(tmp_path)
    before.publish(*(a_signed_message(n, previous=n - 1) for n in (1, 2, 5)))
    before.storage.close()
    storage = Storage(tmp_path)
    hub = Hub(storage, Admission(Registry(storage, Limits()), lambda: NOW_MS), Counters())
    hub.load_recent()

    replayed = [a_signed_message(n, previous=n - 1) for n in (1, 2, 3, 4, 5, 6)]
    assert [hub.publish_relayed(message, None) for message in replayed] == [False, False, True, True, False, True]
    storage.close()


def test_no_more_is_read_at_the_start_than_the_limits_say(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    messages = [a_signed_message(n) for n in range(1, 6)]
    bench.publish(*messages)
    texts = [message.serialize() for message in messages]

    assert bench.storage.latest(max_messages=2) == [texts[4], texts[3]]
    assert bench.storage.latest(max_characters=len(texts[4]) + 1) == [texts[4], texts[3]]
    assert bench.storage.latest(since_s=2**40) == []
    bench.storage.close()
