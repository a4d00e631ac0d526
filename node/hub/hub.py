"""The hub: checks published messages, stores them, and then delivers them to subscribers.

    publish ──> admission ──> duplicates ──> pending ──> storage (group commit) ──> subscribers, listeners
                                                └── key exchange: not stored ──────────┘

While one batch is being committed in the storage's thread, the next one gathers: the slower the disk, the larger the
batch. `pending` is bounded; a publisher waits in `wait_for_space()`.

A batch is delivered in runs of consecutive messages of one partition, so that a subscriber costs one call per run and
not per message. A batch is bounded, too, because clients are written to only between two batches.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from node.admission import Admission
from node.counters import Counters
from node.errors import ErrorCode, Refused, StorageError
from node.hub.duplicates import DuplicateFilter
from node.limits import Holder
from node.serialization import Broadcast, BroadcastRun, readable_broadcasts
from node.storage import Entry, Outcome, Storage
from node.streams import MAX_STREAM_ID_BYTES, PUBLIC, StreamPart, key_exchange_owner
from protocol.errors import Unsupported
from protocol.streamr.stream_message import LATEST_STREAM_VERSION, EncryptionType, SignatureType, StreamMessage
from protocol.streamr.stream_message.message import convert_stream_message
from protocol.streamr.stream_message.parts import LEGACY_VERSIONS

MAX_PENDING_MESSAGES: Final = 10_000
MAX_PENDING_CHARACTERS: Final = 16 * 1024 * 1024
MAX_LATEST_OFFSETS: Final = 10_000
MAX_BATCH_MESSAGES: Final = 1_000
MAX_BATCH_CHARACTERS: Final = 256 * 1024  # unless one message has more

log = logging.getLogger(__name__)

MessageListener = Callable[[Broadcast, object], None]
"""Called once for every accepted message, after it is stored, with the source that was given for it."""

InterestListener = Callable[[StreamPart, bool], None]
"""Called with True when the first client subscribes to a partition, with False when the last one has left."""

Done = Callable[[StorageError | Refused | None], None]
"""Called with None when a message is stored, or with the error: the disk failed, or a quota is used up."""


class Subscriber(Protocol):
    """A receiver of the messages of the partitions that it subscribed to."""

    def deliver(self, run: BroadcastRun) -> None:
        """Receive messages. Must not block or raise, and must bound its memory."""


class _Pending(NamedTuple):
    broadcast: Broadcast
    source: object
    done: Done | None
    holder: Holder

    def report(self, problem: StorageError | Refused | None) -> None:
        if self.done is not None:
            self.done(problem)


class Hub:
    def __init__(self, storage: Storage, admission: Admission, counters: Counters) -> None:
        self.counters = counters
        self._storage = storage
        self._admission = admission
        self._duplicates = DuplicateFilter()
        self._subscribers: defaultdict[StreamPart, dict[Subscriber, None]] = defaultdict(dict)
        self._message_listeners: list[MessageListener] = []
        self._interest_listeners: list[InterestListener] = []
        self._pending: list[_Pending] = []
        self._pending_characters = 0
        self._has_pending = asyncio.Event()
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._storing = asyncio.Lock()
        self._latest_offsets: dict[StreamPart, int] = {}  # least recently published first

    def load_recent(self) -> None:
        """Load the messages stored last, to recognise duplicates of them. Blocks: only for the start."""
        self._duplicates.seed(broadcast.message for broadcast in readable_broadcasts(self._storage.latest()))

    # --- publishing ---

    def publish(
        self,
        message: StreamMessage,
        user: str,
        *,
        origin: str = "",
        done: Done | None = None,
        may_be_late: bool = False,
    ) -> None:
        """Accept a message that a client publishes. `done` is called when it is stored, or could not be.

        `origin` is the network that is charged for it. A duplicate, or a message older than the last of its chain, is
        dropped silently, as by real brokers; with `may_be_late` only a duplicate is. Raises: `Refused`.
        """
        self._admission.admit(message, user)
        self._accept(message, None, done, Holder(_author(message, user), origin), may_be_late=may_be_late)

    def publish_relayed(self, message: StreamMessage, source: object, origin: str = "") -> bool:
        """Accept a message that another node admitted. Returns whether it is new here. Raises: `Refused`."""
        if len(message.message_id.stream_id) > MAX_STREAM_ID_BYTES:
            raise Refused(ErrorCode.INVALID_REQUEST, f"A stream id has at most {MAX_STREAM_ID_BYTES} bytes")
        self._admission.admit_relayed(message)
        return self._accept(message, source, None, Holder(_author(message, PUBLIC), origin), may_be_late=False)

    async def wait_for_space(self) -> None:
        """Wait until more messages can be accepted."""
        await self._has_space.wait()

    def _accept(
        self, message: StreamMessage, source: object, done: Done | None, holder: Holder, *, may_be_late: bool
    ) -> bool:
        if message.version in LEGACY_VERSIONS:
            message = convert_stream_message(message, LATEST_STREAM_VERSION, draft=False)
        pending = _Pending(Broadcast(message, _serialized(message)), source, done, holder)
        if not may_be_late and not self._duplicates.add(message):
            self.counters.duplicates += 1
            pending.report(None)
            return False
        self.counters.published += 1
        if key_exchange_owner(message.message_id.stream_id):
            self._deliver(pending.broadcast.part, [pending])
            pending.report(None)
        else:
            self._add_pending(pending)
        return True

    def _add_pending(self, pending: _Pending) -> None:
        self._pending.append(pending)
        self._pending_characters += len(pending.broadcast.text)
        self._has_pending.set()
        if len(self._pending) >= MAX_PENDING_MESSAGES or self._pending_characters >= MAX_PENDING_CHARACTERS:
            self._has_space.clear()

    @property
    def pending_messages(self) -> int:
        return len(self._pending)

    # --- storing ---

    async def store_forever(self) -> None:
        """Commit pending messages, batch after batch. The only task that delivers stored messages."""
        while True:
            await self._has_pending.wait()
            await self.store_pending()

    async def store_pending(self) -> None:
        """Commit and deliver everything that is pending now."""
        async with self._storing:
            pending, self._pending, self._pending_characters = self._pending, [], 0
            self._has_pending.clear()
            self._has_space.set()
            for batch in _batches(pending):
                await self._store(batch)

    async def _store(self, batch: list[_Pending]) -> None:
        try:
            outcomes = await self._storage.append([_entry(pending) for pending in batch], int(time.time()))
        except StorageError as problem:
            self._fail(batch, problem)
            return
        self.counters.storage_failing = False
        fresh = [
            self._with_offset(pending, outcome)
            for pending, outcome in zip(batch, outcomes, strict=True)
            if outcome and isinstance(outcome, int)
        ]
        self.counters.stored += len(fresh)
        self.counters.stored_bytes += sum(len(pending.broadcast.text) for pending in fresh)
        self.counters.duplicates += outcomes.count(0)
        for part, run in groupby(fresh, key=attrgetter("broadcast.part")):
            self._deliver(part, list(run))
        for pending, outcome in zip(batch, outcomes, strict=True):
            self._settle(pending, outcome)

    def _with_offset(self, pending: _Pending, offset: int) -> _Pending:
        """Add the offsets for legacy clients, which find gaps by the offset of the previous message."""
        part, broadcast = pending.broadcast.part, pending.broadcast
        previous = self._latest_offsets.pop(part, None)
        if broadcast.message.encryption_type is EncryptionType.NONE:  # others have no legacy form
            self._latest_offsets[part] = offset
        elif previous is not None:
            self._latest_offsets[part] = previous
        if len(self._latest_offsets) > MAX_LATEST_OFFSETS:
            del self._latest_offsets[next(iter(self._latest_offsets))]
        return pending._replace(broadcast=broadcast._replace(offset=offset, previous_offset=previous))

    def _settle(self, pending: _Pending, outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            self._duplicates.remove_chain(pending.broadcast.message)  # so that it may be published again
            pending.report(outcome)
        else:
            pending.report(None)

    def _fail(self, batch: list[_Pending], problem: StorageError) -> None:
        if not self.counters.storage_failing:
            log.error("storage failed, messages are refused; problem=%s", problem)
        self.counters.storage_failing = True
        self.counters.storage_failures += len(batch)
        for pending in batch:
            self._duplicates.remove_chain(pending.broadcast.message)  # so that it may be published again
            pending.report(problem)

    # --- delivering ---

    def _deliver(self, part: StreamPart, messages: list[_Pending]) -> None:
        run = BroadcastRun([pending.broadcast for pending in messages])
        for subscriber in tuple(self._subscribers.get(part, ())):
            subscriber.deliver(run)
        for listener in self._message_listeners:
            for pending in messages:
                listener(pending.broadcast, pending.source)

    def subscribe(self, part: StreamPart, subscriber: Subscriber) -> None:
        is_first = part not in self._subscribers
        self._subscribers[part][subscriber] = None
        if is_first:
            self._notify_interest(part, interested=True)

    def unsubscribe(self, part: StreamPart, subscriber: Subscriber) -> None:
        subscribers = self._subscribers.get(part, {})
        subscribers.pop(subscriber, None)
        if part in self._subscribers and not subscribers:
            del self._subscribers[part]
            self._notify_interest(part, interested=False)

    @property
    def subscribed_parts(self) -> dict[StreamPart, int]:
        """The number of subscribers of every partition that has any."""
        return {part: len(subscribers) for part, subscribers in self._subscribers.items()}

    def listen_to_messages(self, listener: MessageListener) -> None:
        self._message_listeners.append(listener)

    def listen_to_interest(self, listener: InterestListener) -> None:
        self._interest_listeners.append(listener)

    def _notify_interest(self, part: StreamPart, *, interested: bool) -> None:
        for listener in self._interest_listeners:
            listener(part, interested)


def _batches(pending: list[_Pending]) -> Iterator[list[_Pending]]:
    """Split messages into batches that are neither empty nor too large."""
    batch: list[_Pending] = []
    characters = 0
    for each in pending:
        characters += len(each.broadcast.text)
        if batch and (characters > MAX_BATCH_CHARACTERS or len(batch) == MAX_BATCH_MESSAGES):
            yield batch
            batch, characters = [], len(each.broadcast.text)
        batch.append(each)
    if batch:
        yield batch


def _author(message: StreamMessage, user: str) -> str:
    """The identity that a message is charged to: its signer, or else the user that sends it."""
    return user if message.signature_type is SignatureType.NONE else message.message_id.publisher_id.lower()


def _entry(pending: _Pending) -> Entry:
    broadcast = pending.broadcast
    _, _, timestamp, sequence, publisher, chain = broadcast.message.message_id
    return Entry(broadcast.part, timestamp, sequence, publisher.lower(), chain, broadcast.text, pending.holder)


def _serialized(message: StreamMessage) -> str:
    try:
        return message.serialize()
    except Unsupported as problem:
        raise Refused(ErrorCode.INVALID_REQUEST, f"The message cannot be forwarded: {problem}") from None
