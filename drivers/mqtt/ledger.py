"""Which QoS 1 messages were handed over, and which of them are committed. Pure.

The broker sends again, with the same number and marked as a duplicate, what was not acknowledged when the link broke,
or whose acknowledgement was lost on the way. Within one life of the agent such a message is known here: it is not
handed over twice, and if it is committed already, it is acknowledged at once. After a restart of the agent it comes
once more, as QoS 1 allows.

A message is known by its number and by the hash of what it says: 64 bits, keyed anew in each process.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["MAX_UNACKNOWLEDGED", "Ledger", "Message"]

MAX_UNACKNOWLEDGED: Final = 1000


class Message(NamedTuple):
    topic: str
    payload: bytes
    number: int  # to acknowledge by; 0 for QoS 0
    is_duplicate: bool
    is_retained: bool


class Ledger:
    def __init__(self) -> None:
        self._next_token = 0
        self._pending: dict[int, tuple[int, int]] = {}  # token ──► number and hash, handed over
        self._committed: OrderedDict[int, int] = (
            OrderedDict()
        )  # number ──► hash; the latest `MAX_UNACKNOWLEDGED`, oldest first

    def __len__(self) -> int:
        """How many are handed over and not committed."""
        return len(self._pending)

    def hand_over(self, message: Message) -> int | None:
        """The token of a message; None if it was handed over before."""
        entry = (message.number, _hash(message))
        if message.is_duplicate and entry in self._pending.values():
            return None
        self._next_token += 1
        self._pending[self._next_token] = entry
        return self._next_token

    def is_committed(self, message: Message) -> bool:
        """Whether a message that comes again needs no more than its acknowledgement."""
        if message.is_duplicate:
            return self._committed.get(message.number) == _hash(message)
        self._committed.pop(message.number, None)  # the number begins a new life
        return False

    def commit(self, tokens: Iterable[int]) -> list[int]:
        """The numbers to acknowledge; a token that is unknown gives none."""
        pending, committed = self._pending, self._committed
        known = [pending.pop(token) for token in tokens if token in pending]
        for number, hashed in known:
            committed.pop(number, None)
            committed[number] = hashed
        while len(committed) > MAX_UNACKNOWLEDGED:
            committed.popitem(last=False)
        return [number for number, _ in known]


def _hash(message: Message) -> int:
    return hash((message.topic, message.payload))
