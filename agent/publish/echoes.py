"""Tracks which messages a node has stored, by echoes and storage queries. No I/O; time is an argument.

A node sends a published message to all subscribers of its stream partition, us among them: the echo is the
acknowledgement. There are two reasons for a missing echo, which cannot be distinguished from here:

- the node did not receive it, or could not forward it;
- the node had it before (from a connection that was lost before its echo came) and drops the duplicate silently.

So a message without an echo in time is looked up in the node's storage first, and sent again if it is not there:

    sent ── echo ──────────────────────────────► acknowledged
      └── `timeout_s` ──► queried ── resent ───► acknowledged
                             ├── not found ──► sent again, `max_sends` in all ──► quarantined
                             └── no response ─► the connection is closed

Until a chain's first echo on a connection the wait is `first_timeout_s`: duplicates are likely then.
"""

from dataclasses import dataclass
from typing import NamedTuple

from agent.journal import Record
from agent.publish.contract import Acknowledged, RejectedRun, run_of
from protocol.streamr.ids import MessageID, MessageRef

MAX_ECHOED_CHAINS = 10_000


class ChainId(NamedTuple):
    stream_id: str
    partition: int
    publisher: str
    chain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoSettings:
    first_timeout_s: float = 1.0
    timeout_s: float = 5.0
    max_sends: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.first_timeout_s <= self.timeout_s:
            raise ValueError(f"first_timeout_s {self.first_timeout_s} is not above 0 and at most {self.timeout_s}")
        if self.max_sends < 1:
            raise ValueError(f"max_sends {self.max_sends} is less than 1")


class Question(NamedTuple):
    """A storage query for messages of one chain: `first` to `last`, both included."""

    number: int
    chain: ChainId
    first: MessageRef
    last: MessageRef


@dataclass(slots=True)
class _Sent:
    record: Record
    key: MessageID
    sends: int
    due_at_s: float
    question: int | None = None  # the open query for it


class EchoTracker:
    """The messages of one connection that are not acknowledged yet."""

    def __init__(self, settings: EchoSettings) -> None:
        self._settings = settings
        self._sent: dict[MessageID, _Sent] = {}  # the one sent longest ago first
        self._keys: dict[tuple[int, int], MessageID] = {}
        self._echoed_chains: set[ChainId] = set()
        self._questions = 0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, record: Record, key: MessageID, now_s: float) -> None:
        """Add a message that was sent for the first time."""
        self._sent[key] = _Sent(record, key, 1, now_s + self._wait_s(key))
        self._keys[record.lane, record.position] = key

    def prove(self, key: MessageID) -> Acknowledged | None:
        """Acknowledge a message that the node sent back. None if it is not one of ours, or not open."""
        sent = self._close(key)
        if sent is None:
            return None
        if len(self._echoed_chains) < MAX_ECHOED_CHAINS:
            self._echoed_chains.add(_chain_of(key))
        return Acknowledged(*run_of([sent.record]))

    def refuse(self, lane: int, position: int, reason: str) -> RejectedRun | None:
        """Record that the node refused a message, with its reason."""
        key = self._keys.get((lane, position))
        sent = None if key is None else self._close(key)
        return None if sent is None else RejectedRun(*run_of([sent.record]), reason)

    def ask(self, now_s: float) -> list[Question]:
        """The storage queries to make: one for each chain with an overdue message."""
        overdue: dict[ChainId, list[_Sent]] = {}
        for sent in self._sent.values():
            if sent.question is None and sent.due_at_s <= now_s:
                overdue.setdefault(_chain_of(sent.key), []).append(sent)
        return [self._question(chain, several, now_s) for chain, several in overdue.items()]

    def answer(self, number: int, now_s: float) -> list[Record | RejectedRun]:
        """After the response to a query: send again what is still not acknowledged, or reject it."""
        return [self._retry(sent, now_s) for sent in self._about(number)]

    def is_unanswered(self, now_s: float) -> bool:
        """Whether a query has timed out: then the node does not work."""
        return any(sent.question is not None and sent.due_at_s <= now_s for sent in self._sent.values())

    def _question(self, chain: ChainId, overdue: list[_Sent], now_s: float) -> Question:
        self._questions += 1
        for sent in overdue:
            sent.question, sent.due_at_s = self._questions, now_s + self._settings.timeout_s
        refs = [sent.key.ref for sent in overdue]
        return Question(self._questions, chain, min(refs), max(refs))

    def _about(self, number: int) -> list[_Sent]:
        return [sent for sent in self._sent.values() if sent.question == number]

    def _retry(self, sent: _Sent, now_s: float) -> Record | RejectedRun:
        if sent.sends >= self._settings.max_sends:
            self._close(sent.key)
            reason = f"sent {sent.sends} times, never echoed, and not found in the node's storage"
            return RejectedRun(*run_of([sent.record]), reason)
        sent.sends += 1
        sent.question, sent.due_at_s = None, now_s + self._settings.timeout_s
        return sent.record

    def _close(self, key: MessageID) -> _Sent | None:
        sent = self._sent.pop(key, None)
        if sent is not None:
            del self._keys[sent.record.lane, sent.record.position]
        return sent

    def _wait_s(self, key: MessageID) -> float:
        is_echoed = _chain_of(key) in self._echoed_chains
        return self._settings.timeout_s if is_echoed else self._settings.first_timeout_s


def message_key(message_id: MessageID | None) -> MessageID | None:
    """The id by which a message is tracked: its publisher is in lower case, which nodes may write otherwise."""
    if message_id is None:
        return None
    publisher = message_id.publisher_id.lower()
    return message_id if publisher == message_id.publisher_id else message_id._replace(publisher_id=publisher)


def _chain_of(key: MessageID) -> ChainId:
    return ChainId(key.stream_id, key.stream_partition, key.publisher_id, key.msg_chain_id)
