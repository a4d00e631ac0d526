"""What becomes of the messages of one stream partition: verified, put in order, decrypted. No I/O; time is an argument.

    message ──► signature? ──► order ──► key? ──► Opened
                    │            │         └── none yet: PublishKeyRequest, and its publisher's messages wait
                    ▼            ▼
                Unverified   AskResend, then Lost

Memory is bounded: what waits for keys, by `MAX_WAITING`; beyond it, the oldest is told as `Locked`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.errors import WireError
from protocol.streamr import (
    Delivery,
    EncryptionType,
    GapLost,
    GapRequest,
    Orderer,
    OrderingEvent,
    OrderingRules,
    StreamMessage,
    Verdict,
    Verifier,
    decrypt_message,
)
from protocol.streamr.key_exchange import KeyEvent, KeysReceived, KeysRefused, KeySubscriber, RequestTimedOut

__all__ = [
    "AskResend",
    "Locked",
    "Lost",
    "Opened",
    "PublishKeyRequest",
    "Subscription",
    "SubscriptionEvent",
    "Unverified",
]

MAX_WAITING: Final = 10_000
MAX_REFUSED_KEYS: Final = 1_000


class Opened(NamedTuple):
    """A message of its publisher, in its turn, with its content in plain."""

    message: StreamMessage
    content: str


class Unverified(NamedTuple):
    """Nobody may rely on this one: it is not shown as if it were the publisher's."""

    message: StreamMessage
    verdict: Verdict


class Locked(NamedTuple):
    """A message of its publisher, in its turn, that we cannot read."""

    message: StreamMessage
    reason: str


class AskResend(NamedTuple):
    """Ask the node for these, and `take` what comes."""

    gap: GapRequest


class Lost(NamedTuple):
    gap: GapLost


class PublishKeyRequest(NamedTuple):
    message: StreamMessage


SubscriptionEvent = Opened | Unverified | Locked | AskResend | Lost | PublishKeyRequest


class Subscription:
    """One stream partition, as one reader sees it. `new_request_id` gives names that never come twice."""

    def __init__(self, new_request_id: Callable[[], str], rules: OrderingRules | None = None) -> None:
        self._new_request_id = new_request_id
        self._verifier = Verifier()
        self._orderer = Orderer(rules)
        self._keys: KeySubscriber | None = None
        self._waiting: dict[str, deque[StreamMessage]] = {}  # by publisher, in order
        self._refused: dict[tuple[str, str | None], str] = {}  # why we get no such key; the oldest first

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` will next have something to say."""
        own = [self._orderer.next_deadline_ms, None if self._keys is None else self._keys.next_deadline_ms]
        return min((deadline for deadline in own if deadline is not None), default=None)

    @property
    def wants_keys(self) -> bool:
        """Whether something waits that `use_keys` would let us read."""
        return self._keys is None and any(self._waiting.values())

    def use_keys(self, keys: KeySubscriber | None, now_ms: int) -> list[SubscriptionEvent]:
        """Ask for keys by this; None: there are none to be had, so do not wait for any."""
        self._keys = keys
        if keys is not None:
            return self._go_on(now_ms)
        return self._give_up(lambda _: "the message is encrypted, and there is no key file to ask for keys with")

    def take(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        """A message of the stream, live or resent, any number of times."""
        verdict = self._verifier.verify(message)
        if not verdict:
            return [Unverified(message, verdict)]
        return self._order(self._orderer.add(message, now_ms), now_ms)

    def take_key_message(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        """A message of our key exchange stream."""
        if self._keys is None:
            return []
        return self._hear(self._keys.receive(message), now_ms)

    def tick(self, now_ms: int) -> list[SubscriptionEvent]:
        ordered = self._order(self._orderer.tick(now_ms), now_ms)
        return ordered if self._keys is None else ordered + self._hear(self._keys.tick(now_ms), now_ms)

    def _order(self, events: list[OrderingEvent], now_ms: int) -> list[SubscriptionEvent]:
        told: list[SubscriptionEvent] = []
        for event in events:
            match event:
                case Delivery(message=message):
                    told += self._deliver(message, now_ms)
                case GapRequest() if event.from_ref <= event.to_ref:
                    told.append(AskResend(event))
                case GapLost():
                    told.append(Lost(event))
        return told

    def _deliver(self, message: StreamMessage, now_ms: int) -> list[SubscriptionEvent]:
        queue = self._waiting.pop(_publisher(message), None) or deque()
        queue.append(message)
        told = self._open_queue(queue, now_ms)
        if len(queue) > MAX_WAITING:
            told.append(Locked(queue.popleft(), "too many messages wait for keys"))
        if queue:
            self._waiting[_publisher(message)] = queue
        return told

    def _go_on(self, now_ms: int) -> list[SubscriptionEvent]:
        return [event for queue in self._waiting.values() for event in self._open_queue(queue, now_ms)]

    def _open_queue(self, queue: deque[StreamMessage], now_ms: int) -> list[SubscriptionEvent]:
        """Open from the front, up to the first message that has to wait for its key."""
        told: list[SubscriptionEvent] = []
        while queue:
            event = self._open(queue[0], now_ms)
            if event is None:
                break
            told.append(event)
            if isinstance(event, PublishKeyRequest):
                break
            queue.popleft()
        return told

    def _open(self, message: StreamMessage, now_ms: int) -> SubscriptionEvent | None:
        """None while a key is on its way."""
        if message.encryption_type is EncryptionType.NONE:
            return Opened(message, message.content)
        if (reason := self._refused.get(_key_name(message))) is not None:
            return Locked(message, reason)
        if self._keys is None:
            return None
        key = self._keys.key_for(message)
        if key is None:
            return self._ask_for_key(self._keys, message, now_ms)
        try:
            content, next_key = decrypt_message(message, key)
        except (WireError, ValueError) as problem:
            return Locked(message, str(problem))
        if next_key is not None:
            self._keys.learn_next_key(message, next_key)
        return Opened(message, content)

    def _ask_for_key(self, keys: KeySubscriber, message: StreamMessage, now_ms: int) -> PublishKeyRequest | None:
        publisher, key_id = _key_name(message)
        wanted = () if key_id is None else (key_id,)
        stream_id = message.message_id.stream_id
        request = keys.request_keys(publisher, stream_id, self._new_request_id(), now_ms, group_key_ids=wanted)
        return None if request is None else PublishKeyRequest(request)

    def _hear(self, events: list[KeyEvent], now_ms: int) -> list[SubscriptionEvent]:
        told: list[SubscriptionEvent] = []
        for event in events:
            match event:
                case KeysReceived(source=source, keys=keys) if not keys:
                    told += self._give_up_publisher(source.publisher_id, "the publisher has no such key")
                case KeysRefused(source=source, error_message=problem):
                    told += self._give_up_publisher(source.publisher_id, f"the publisher gives us no key: {problem}")
                case RequestTimedOut(source=source):
                    told += self._give_up_publisher(source.publisher_id, "the publisher did not answer", for_good=False)
        return told + self._go_on(now_ms)

    def _give_up_publisher(self, publisher: str, reason: str, *, for_good: bool = True) -> list[SubscriptionEvent]:
        """The message at the front of its queue cannot be read, nor those behind it that need the same key."""
        queue = self._waiting.get(publisher)
        if not queue or self._keys is None or self._keys.key_for(queue[0]) is not None:
            return []
        name = _key_name(queue[0])
        if for_good:
            self._remember_refusal(name, reason)
        told: list[SubscriptionEvent] = []
        while queue and _key_name(queue[0]) == name:
            told.append(Locked(queue.popleft(), reason))
        return told

    def _give_up(self, reason: Callable[[StreamMessage], str]) -> list[SubscriptionEvent]:
        told: list[SubscriptionEvent] = []
        for queue in self._waiting.values():
            for message in queue:
                self._remember_refusal(_key_name(message), reason(message))
                told.append(Locked(message, reason(message)))
            queue.clear()
        return told

    def _remember_refusal(self, name: tuple[str, str | None], reason: str) -> None:
        if len(self._refused) >= MAX_REFUSED_KEYS:
            del self._refused[next(iter(self._refused))]
        self._refused[name] = reason


def _publisher(message: StreamMessage) -> str:
    return message.message_id.publisher_id.lower()


def _key_name(message: StreamMessage) -> tuple[str, str | None]:
    return _publisher(message), message.group_key_id
