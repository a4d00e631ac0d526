"""Verifies, orders and decrypts the messages of one stream partition. No I/O; time is an argument.

    message ──► signature, chain id? ──► order ──► key? ──► Opened, unless its readings came in another message
                    │                      │         │      └── a pack that cannot be decoded: Unreadable
                    ▼                      ▼         ▼
                Unverified     AskResend, then Lost  none yet: PublishKeyRequest, and its publisher's messages wait

The hash chain of the readings is followed from message to message: a `Broken` precedes the message that breaks it.

Memory is bounded: what waits for keys, by `MAX_WAITING`; beyond it, the oldest becomes `Locked`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from agent.operator.contents import Locked, Opened, Unreadable, open_content
from agent.operator.reading_checks import HashChains, SeenMessages, break_text
from protocol.errors import WireError
from protocol.iomessage.content import carries_io_message
from protocol.publisher_chain import REFRAMED, is_chain_id
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.group_keys.key_subscriber import (
    KeyEvent,
    KeysReceived,
    KeysRefused,
    KeySubscriber,
    RequestTimedOut,
)
from protocol.streamr.ordering import Delivery, GapLost, GapRequest, Orderer, OrderingEvent, OrderingRules
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from protocol.streamr.stream_message.signing import Verifier

MAX_WAITING: Final = 10_000
MAX_REFUSED_KEYS: Final = 1_000


WITHOUT_ASKING: Final = "or give --group-keys FILE, which headgate keys export-group-keys writes on the device"
NO_KEY_FILE: Final = f"encrypted; give --keys FILE, the keys of a reader of the stream, {WITHOUT_ASKING}"
NOT_ANSWERED: Final = (
    "the publisher did not answer the key request; it must be running and connected to this node by a websocket"
    f" publisher; {WITHOUT_ASKING}"
)
NO_SUCH_KEY: Final = f"the publisher no longer has the key; {WITHOUT_ASKING}"
REFUSED: Final = "the publisher refused the key; add the address of --keys to the readers of the stream on the device"


class Broken(NamedTuple):
    """A verified message in order whose readings break the hash chain of its publisher; it is `Opened` next."""

    message: StreamMessage
    reason: str


class Unverified(NamedTuple):
    """A message whose signature could not be verified; its content is not shown."""

    message: StreamMessage
    reason: str


class AskResend(NamedTuple):
    """A request to the node for missing messages."""

    gap: GapRequest


class Lost(NamedTuple):
    gap: GapLost


class PublishKeyRequest(NamedTuple):
    message: StreamMessage


SubscriptionEvent = Opened | Broken | Unreadable | Unverified | Locked | AskResend | Lost | PublishKeyRequest


class Subscription:
    """One stream partition, as one reader sees it. `new_request_id` gives names that never come twice."""

    def __init__(
        self,
        new_request_id: Callable[[], str],
        rules: OrderingRules | None = None,
        given_keys: Mapping[str, GroupKey] | None = None,
    ) -> None:
        """`given_keys` are group keys of the stream, by their ids, for which no publisher has to be asked."""
        self._new_request_id = new_request_id
        self._given_keys = dict(given_keys or {})
        self._verifier = Verifier()
        self._orderer = Orderer(rules)
        self._keys: KeySubscriber | None = None
        self._waiting: dict[str, deque[StreamMessage]] = {}  # by publisher, in order
        self._refused: dict[tuple[str, str | None], str] = {}  # why we get no such key; the oldest first
        self._seen = SeenMessages()
        self._hash_chains = HashChains()

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next `tick` that may give events."""
        own = [self._orderer.next_deadline_ms, None if self._keys is None else self._keys.next_deadline_ms]
        return min((deadline for deadline in own if deadline is not None), default=None)

    @property
    def needs_keys(self) -> bool:
        """Whether messages wait that `use_keys` may decrypt."""
        return self._keys is None and any(self._waiting.values())

    def use_keys(self, keys: KeySubscriber | None, now_ms: int) -> list[SubscriptionEvent]:
        """Request keys with this; None: no keys can be requested, so do not wait for any."""
        self._keys = keys
        if keys is not None:
            return self._open_waiting(now_ms)
        return self._give_up(NO_KEY_FILE)

    def take(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        """A message of the stream, live or resent, any number of times."""
        verdict = self._verifier.verify(message)
        if not verdict:
            return [Unverified(message, verdict)]
        if message.encryption_type is EncryptionType.NONE and _is_reframed(message, message.content):
            return [Unverified(message, REFRAMED)]
        return self._order(self._orderer.add(message, now_ms), now_ms)

    def take_key_message(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        """A message of our key exchange stream."""
        if self._keys is None:
            return []
        return self._handle_key_events(self._keys.receive(message), now_ms)

    def tick(self, now_ms: int) -> list[SubscriptionEvent]:
        ordered = self._order(self._orderer.tick(now_ms), now_ms)
        return ordered if self._keys is None else ordered + self._handle_key_events(self._keys.tick(now_ms), now_ms)

    def finish(self, now_ms: int) -> list[SubscriptionEvent]:
        """End the wait for resends and keys: what still waits becomes lost or locked."""
        events: list[SubscriptionEvent] = []
        while (deadline_ms := self._orderer.next_deadline_ms) is not None:
            events += self._order(self._orderer.tick(max(deadline_ms, now_ms)), now_ms)
        events += [event for queue in self._waiting.values() for event in self._open_or_give_up(queue, now_ms)]
        return [event for event in events if not isinstance(event, AskResend | PublishKeyRequest)]

    def _open_or_give_up(self, queue: deque[StreamMessage], now_ms: int) -> list[SubscriptionEvent]:
        events: list[SubscriptionEvent] = []
        while queue:
            events += self._open_queue(queue, now_ms)
            if queue:
                events.append(Locked(queue.popleft(), NOT_ANSWERED))
        return events

    def _order(self, events: list[OrderingEvent], now_ms: int) -> list[SubscriptionEvent]:
        results: list[SubscriptionEvent] = []
        for event in events:
            match event:
                case Delivery(message=message):
                    results += self._deliver(message, now_ms)
                case GapRequest() if event.from_ref <= event.to_ref:
                    results.append(AskResend(event))
                case GapLost():
                    results.append(Lost(event))
        return results

    def _deliver(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        queue = self._waiting.pop(_publisher(message), None) or deque()
        queue.append(message)
        results = self._open_queue(queue, now_ms)
        if len(queue) > MAX_WAITING:
            results.append(Locked(queue.popleft(), "too many messages are waiting for keys"))
        if queue:
            self._waiting[_publisher(message)] = queue
        return results

    def _open_waiting(self, now_ms: int) -> list[SubscriptionEvent]:
        return [event for queue in self._waiting.values() for event in self._open_queue(queue, now_ms)]

    def _open_queue(self, queue: deque[StreamMessage], now_ms: int) -> list[SubscriptionEvent]:
        """Open from the front, up to the first message that has to wait for its key."""
        results: list[SubscriptionEvent] = []
        while queue:
            event = self._open(queue[0], now_ms)
            if event is None:
                break
            if isinstance(event, Opened):
                results += self._deliver_once(event)
            else:
                results.append(event)
            if isinstance(event, PublishKeyRequest):
                break
            queue.popleft()
        return results

    def _deliver_once(self, opened: Opened) -> Iterator[SubscriptionEvent]:
        if self._seen.is_duplicate(opened.message, opened.readings):
            return
        if breaks := self._hash_chains.follow(opened.message, opened.readings):
            yield Broken(opened.message, break_text(breaks, len(opened.readings)))
        yield opened

    def _open(self, message: StreamMessage, now_ms: int) -> SubscriptionEvent | None:
        """None while a key is on its way."""
        if message.encryption_type is EncryptionType.NONE:
            return open_content(message, message.content)  # `take` has checked its chain id
        key = self._given_keys.get(message.group_key_id or "")
        if key is not None:
            return self._decrypt(message, key)
        if (reason := self._refused.get(_key_name(message))) is not None:
            return Locked(message, reason)
        if self._keys is None:
            return None
        key = self._keys.key_for(message)
        if key is None:
            return self._ask_for_key(self._keys, message, now_ms)
        return self._decrypt(message, key)

    def _decrypt(self, message: StreamMessage, key: GroupKey) -> SubscriptionEvent:
        try:
            content, next_key = decrypt_message(message, key)
        except (WireError, ValueError) as problem:
            return Locked(message, str(problem))
        if next_key is not None and self._keys is not None:
            self._keys.learn_next_key(message, next_key)
        if next_key is not None and next_key.group_key_id:
            self._given_keys.setdefault(next_key.group_key_id, next_key)
        return Unverified(message, REFRAMED) if _is_reframed(message, content) else open_content(message, content)

    def _ask_for_key(self, keys: KeySubscriber, message: StreamMessage, now_ms: int) -> PublishKeyRequest | None:
        publisher, key_id = _key_name(message)
        wanted = () if key_id is None else (key_id,)
        stream_id = message.message_id.stream_id
        request = keys.request_keys(publisher, stream_id, self._new_request_id(), now_ms, group_key_ids=wanted)
        return None if request is None else PublishKeyRequest(request)

    def _handle_key_events(self, events: list[KeyEvent], now_ms: int) -> list[SubscriptionEvent]:
        results: list[SubscriptionEvent] = []
        for event in events:
            match event:
                case KeysReceived(source=source, keys=keys) if not keys:
                    results += self._give_up_publisher(source.publisher_id, NO_SUCH_KEY)
                case KeysRefused(source=source, error_message=problem):
                    results += self._give_up_publisher(source.publisher_id, f"{REFUSED}: {problem}")
                case RequestTimedOut(source=source):
                    results += self._give_up_publisher(source.publisher_id, NOT_ANSWERED, for_good=False)
        return results + self._open_waiting(now_ms)

    def _give_up_publisher(self, publisher: str, reason: str, *, for_good: bool = True) -> list[SubscriptionEvent]:
        """The message at the front of its queue cannot be read, nor those behind it that need the same key."""
        queue = self._waiting.get(publisher)
        if not queue or self._keys is None or self._keys.key_for(queue[0]) is not None:
            return []
        name = _key_name(queue[0])
        if for_good:
            self._note_refusal(name, reason)
        results: list[SubscriptionEvent] = []
        while queue and _key_name(queue[0]) == name:
            results.append(Locked(queue.popleft(), reason))
        return results

    def _give_up(self, reason: str) -> list[SubscriptionEvent]:
        results: list[SubscriptionEvent] = []
        for queue in self._waiting.values():
            for message in queue:
                self._note_refusal(_key_name(message), reason)
                results.append(Locked(message, reason))
            queue.clear()
        return results

    def _note_refusal(self, name: tuple[str, str | None], reason: str) -> None:
        if len(self._refused) >= MAX_REFUSED_KEYS:
            del self._refused[next(iter(self._refused))]
        self._refused[name] = reason


def _is_reframed(message: StreamMessage, content: str) -> bool:
    return carries_io_message(content) and not is_chain_id(message.message_id.msg_chain_id)


def _publisher(message: StreamMessage) -> str:
    return message.message_id.publisher_id.lower()


def _key_name(message: StreamMessage) -> tuple[str, str | None]:
    return _publisher(message), message.group_key_id
