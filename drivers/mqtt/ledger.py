"""Which QoS 1 messages were handed over, and which of them are committed. Pure.

The broker sends again, with the same number and marked as a duplicate, what was not acknowledged when the link broke,
or whose acknowledgement was lost on the way. Within one life of the agent such a message is known here: it is not
handed over twice, and if it is committed already, it is acknowledged at once. After a restart of the agent it comes
once more, as QoS 1 allows.

A message is known by its number and by the hash of what it says: 64 bits, keyed anew in each process.
"""

from collections.abc import Iterable, Iterator
from itertools import count, islice
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
        self._tokens = count(1)
        self._pending: dict[int, tuple[int, int]] = {}  # token ──► number and hash, handed over
        self._committed: dict[int, int] = {}  # number ──► hash; the latest `MAX_UNACKNOWLEDGED`, oldest first

    def __len__(self) -> int:
        """How many are handed over and not committed."""
        return len(self._pending)

    def hand_over(self, messages: Iterable[Message], known: list[int]) -> Iterator[tuple[Message, int | None]]:
        """Each message that is not under way already, with its token; None for QoS 0.

        A message that is committed needs no more than its acknowledgement: its number goes to `known`.
        """
        pending, committed, tokens = self._pending, self._committed, self._tokens
        for message in messages:
            topic, payload, number, is_duplicate, _ = message
            if not number:
                yield message, None
                continue
            entry = (number, hash((topic, payload)))
            if not is_duplicate:
                committed.pop(number, None)  # the number begins a new life
            elif committed.get(number) == entry[1]:
                known.append(number)
                continue
            elif entry in pending.values():
                continue
            token = next(tokens)
            pending[token] = entry
            yield message, token

    def commit(self, tokens: Iterable[int]) -> list[int]:
        """The numbers to acknowledge; a token that is unknown gives none."""
        pending, committed = self._pending, self._committed
        known = [pending.pop(token) for token in tokens if token in pending]
        for number, hashed in known:
            committed.pop(number, None)
            committed[number] = hashed
        for number in list(islice(committed, max(0, len(committed) - MAX_UNACKNOWLEDGED))):
            del committed[number]
        return [number for number, _ in known]
