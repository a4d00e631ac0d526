"""Puts the messages of a stream partition in order, detects gaps, and decides when to request a resend.

Every chain (one publisher's `msg_chain_id`) is ordered alone. A message is next if nothing was delivered yet, if its
`prev_msg_ref` is the last one delivered, or if it has none and is newer than that. Other messages wait in a queue, and
while any message waits there is a gap:

| when | action |
|---|---|
| a gap opens | none: the missing messages may still arrive |
| `propagation_timeout_ms` later | `GapRequest`: request a resend of the range |
| every `resend_timeout_ms` after that | `GapRequest` again, `max_gap_requests` in all |
| `resend_timeout_ms` after the last one | `GapLost`; the messages after the gap are delivered |

While one gap follows another and the queue is not empty, the timer and the count continue, so that a publisher with
many gaps cannot delay its own newer messages for ever. These are the rules of the JavaScript client, release 9.1.2.

Memory is bounded: if more than `max_queued_messages` would wait, the gap in the chain of the newest message is given up
at once; if there are more than `max_chains`, the least recently active chain is given up and removed. A removed chain
starts again, so a message of it that is received again is delivered again.

Nothing here reads a clock: `now_ms` is an argument, from any clock that does not step back.
"""

import heapq
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from protocol.streamr.checks import MAX_READABLE_INTEGER
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import StreamMessage

MAX_QUEUED_MESSAGES: Final = 10_000
MAX_CHAINS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderingRules:
    """The timeouts and limits of an `Orderer`. With `max_gap_requests` 0, gaps are skipped without an event."""

    propagation_timeout_ms: int = 5_000
    resend_timeout_ms: int = 5_000
    max_gap_requests: int = 10
    max_queued_messages: int = MAX_QUEUED_MESSAGES
    max_chains: int = MAX_CHAINS

    def __post_init__(self) -> None:
        for name, least in (("propagation_timeout_ms", 0), ("resend_timeout_ms", 1), ("max_gap_requests", 0)):
            self._check_least(name, least)
        for name in ("max_queued_messages", "max_chains"):
            self._check_least(name, 1)

    def _check_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ValueError(f"{name} {getattr(self, name)} is less than {least}")


class ChainKey(NamedTuple):
    """The identity of a chain. The publisher is in lower case, as addresses are written in several ways."""

    publisher_id: str
    msg_chain_id: str


class Delivery(NamedTuple):
    """The next message of its chain."""

    message: StreamMessage


class GapRequest(NamedTuple):
    """Request a resend of `from_ref` to `to_ref`, both included, and `add` the messages received.

    If a publisher forked its chain, `from_ref` is newer than `to_ref`: then a resend cannot help, and need not be
    requested.
    """

    chain: ChainKey
    from_ref: MessageRef
    to_ref: MessageRef
    request: int  # 1 for the first of this gap


class GapLostCause(StrEnum):
    UNANSWERED = "no resend filled the gap"
    NO_ROOM = "too many messages wait behind the gap"


class GapLost(NamedTuple):
    """The messages from `from_ref` to `to_ref` are given up. One that still arrives is dropped."""

    chain: ChainKey
    from_ref: MessageRef
    to_ref: MessageRef
    requests: int
    cause: GapLostCause


OrderingEvent = Delivery | GapRequest | GapLost


class Orderer:
    """Orders one stream partition. Pass every message to `add`, and call `tick` at `next_deadline_ms`."""

    def __init__(self, rules: OrderingRules | None = None) -> None:
        self._rules = rules or OrderingRules()
        self._chains: dict[ChainKey, _Chain] = {}  # least recently active first
        self.queued_messages = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is due next; None while no chain has a gap."""
        deadlines = (chain.deadline_ms for chain in self._chains.values() if chain.deadline_ms is not None)
        return min(deadlines, default=None)

    def add(self, message: StreamMessage, now_ms: int) -> list[OrderingEvent]:
        """Accept a message, live or resent, in any order and any number of times."""
        return self._accept(message, now_ms, deliver=True)

    def skip(self, message: StreamMessage, now_ms: int) -> list[OrderingEvent]:
        """Accept a message as `add` does, but do not deliver it: it was delivered before."""
        return self._accept(message, now_ms, deliver=False)

    def tick(self, now_ms: int) -> list[OrderingEvent]:
        """Request again or give up each gap that is due. A late call requests once, not once per missed deadline."""
        due = [(chain.deadline_ms, chain) for chain in self._chains.values() if chain.is_due(now_ms)]
        events: list[OrderingEvent] = []
        for _, chain in sorted(due, key=lambda entry: entry[0] or 0):
            before = chain.queued_messages
            events += chain.tick(now_ms)
            self.queued_messages += chain.queued_messages - before
        return events

    def _accept(self, message: StreamMessage, now_ms: int, *, deliver: bool) -> list[OrderingEvent]:
        chain, events = self._chain_of(message, now_ms)
        before = chain.queued_messages
        events += chain.add(message, now_ms, deliver=deliver)
        if self.queued_messages + chain.queued_messages - before > self._rules.max_queued_messages:
            events += chain.give_up(now_ms, GapLostCause.NO_ROOM)
        self.queued_messages += chain.queued_messages - before
        return events

    def _chain_of(self, message: StreamMessage, now_ms: int) -> "tuple[_Chain, list[OrderingEvent]]":
        """The chain of the message, and the events of a chain that was removed for it."""
        key = ChainKey(message.message_id.publisher_id.lower(), message.message_id.msg_chain_id)
        events: list[OrderingEvent] = []
        chain = self._chains.pop(key, None)
        if chain is None:
            chain = _Chain(key, self._rules)
            if len(self._chains) >= self._rules.max_chains:
                events = self._remove_oldest_chain(now_ms)
        self._chains[key] = chain
        return chain, events

    def _remove_oldest_chain(self, now_ms: int) -> list[OrderingEvent]:
        chain = self._chains.pop(next(iter(self._chains)))
        self.queued_messages -= chain.queued_messages
        events: list[OrderingEvent] = []
        while chain.queued_messages:
            events += chain.give_up(now_ms, GapLostCause.NO_ROOM)
        return events


class _Waiting(NamedTuple):
    """A queued message. References are unique in a queue, so the heap compares nothing else."""

    ref: MessageRef
    message: StreamMessage
    deliver: bool


class _Chain:
    """The queue of one chain and the timer of its gap. `deadline_ms` is set exactly while messages wait."""

    def __init__(self, key: ChainKey, rules: OrderingRules) -> None:
        self.deadline_ms: int | None = None
        self._key = key
        self._rules = rules
        self._last: MessageRef | None = None
        self._heap: list[_Waiting] = []
        self._queued_refs: set[MessageRef] = set()
        self._requests = 0

    @property
    def queued_messages(self) -> int:
        return len(self._heap)

    def is_due(self, now_ms: int) -> bool:
        return self.deadline_ms is not None and self.deadline_ms <= now_ms

    def add(self, message: StreamMessage, now_ms: int, *, deliver: bool) -> list[OrderingEvent]:
        ref = message.message_id.ref
        if ref in self._queued_refs or (self._last is not None and ref <= self._last):
            return []
        heapq.heappush(self._heap, _Waiting(ref, message, deliver))
        self._queued_refs.add(ref)
        events = self._release()
        if self._heap and not self._rules.max_gap_requests:
            return events + self._skip_gap()
        if self.deadline_ms is None:
            self._watch_gap(now_ms + self._rules.propagation_timeout_ms)
        return events

    def tick(self, now_ms: int) -> list[OrderingEvent]:
        if self._requests >= self._rules.max_gap_requests:
            return self.give_up(now_ms, GapLostCause.UNANSWERED)
        self._requests += 1
        self.deadline_ms = now_ms + self._rules.resend_timeout_ms
        return [GapRequest(self._key, *self._gap(), self._requests)]

    def give_up(self, now_ms: int, cause: GapLostCause) -> list[OrderingEvent]:
        """Continue after the gap. A following gap has waited already, so only `resend_timeout_ms` is left for it."""
        lost = GapLost(self._key, *self._gap(), self._requests, cause)
        events = self._skip_gap()
        self.deadline_ms = None
        self._watch_gap(now_ms + self._rules.resend_timeout_ms)
        return [lost, *events]

    def _release(self) -> list[OrderingEvent]:
        events: list[OrderingEvent] = []
        while self._heap and self._is_next(self._heap[0].message):
            waiting = heapq.heappop(self._heap)
            self._queued_refs.discard(waiting.ref)
            self._last = waiting.ref
            if waiting.deliver:
                events.append(Delivery(waiting.message))
        if not self._heap:
            self.deadline_ms = None
        return events

    def _is_next(self, message: StreamMessage) -> bool:
        """For the head of the queue, which is always newer than the last message delivered."""
        return self._last is None or message.prev_msg_ref is None or message.prev_msg_ref == self._last

    def _skip_gap(self) -> list[OrderingEvent]:
        self._last = self._heap[0].message.prev_msg_ref
        return self._release()

    def _watch_gap(self, deadline_ms: int) -> None:
        if self._heap:
            self.deadline_ms = deadline_ms
            self._requests = 0

    def _gap(self) -> tuple[MessageRef, MessageRef]:
        last, missing = self._last, self._heap[0].message.prev_msg_ref
        if last is None or missing is None:
            raise AssertionError("a message without a predecessor never waits")
        return MessageRef(last.timestamp, min(last.sequence_number + 1, MAX_READABLE_INTEGER)), missing
