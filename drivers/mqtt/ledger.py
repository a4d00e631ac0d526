"""The ledger of received and committed QoS 1 messages. Pure.

A message is acknowledged only over the connection that delivered it. The broker delivers again, with the same number
and marked as a duplicate, what was not acknowledged when a connection broke, or whose acknowledgement was lost on the
way. Within one process run, and one session, such a message is recognised here: it is not read twice; if it is
committed already, it is acknowledged at once. After a crash of the agent it is read once more, as QoS 1 allows.

A session that the broker does not resume has numbers of its own: the numbers of the old session are dropped, and
what is committed late is not acknowledged.

A message is identified by its number and by the hash of its content: 64 bits, keyed anew in each process. Some brokers
use a number again as soon as it is acknowledged; under one of those, a message with the content and the number of a
committed one may be a new one, so it is read again: a duplicate is better than a loss.

How many acknowledgements a broken connection can lose is the broker's choice: mosquitto sends more than the maximum
that it was given once connections have broken. So committed messages are remembered by number, whatever their count,
until the broker, which counts upwards and around, is half a round further.
"""

from collections.abc import Iterable, Iterator
from itertools import count
from mmap import mmap
from typing import Final

from runtime.mqtt.packets import Message

__all__ = ["MAX_UNACKNOWLEDGED", "Ledger", "Message"]

MAX_UNACKNOWLEDGED: Final = 1000  # what the broker is asked to respect
NUMBERS: Final = 1 << 16
HALF_ROUND: Final = NUMBERS // 2

_Entry = tuple[int, int]  # number and hash


class Ledger:
    def __init__(self) -> None:
        self._tokens = count(1)
        self._pending: dict[int, _Entry] = {}  # by token: delivered over this connection, not committed
        self._earlier: dict[_Entry, int] = {}  # token by entry: of this session, delivered over an earlier connection
        self._committed = _no_hashes()  # by number; 0: none
        self._reuses_numbers = False

    def __len__(self) -> int:
        """How many are received and not committed."""
        return len(self._pending) + len(self._earlier)

    def connected(self, *, session_is_resumed: bool) -> None:
        """A new connection: nothing has been delivered over it yet."""
        if session_is_resumed:
            self._earlier.update((entry, token) for token, entry in self._pending.items())
        else:
            self._earlier.clear()
            self._committed = _no_hashes()
        self._pending.clear()

    def drop_uncommitted(self) -> None:
        """What was received and not committed will not be: it is to be read when it is delivered again."""
        self._pending.clear()
        self._earlier.clear()

    def receive(self, messages: Iterable[Message], known: list[int]) -> Iterator[tuple[Message, int | None]]:
        """Each message that is not pending already, with its token; None for QoS 0.

        A message that is committed already only needs its acknowledgement: its number goes to `known`.
        """
        pending, committed, tokens = self._pending, self._committed, self._tokens
        for message in messages:
            topic, payload, number, is_duplicate, _ = message
            if not number:
                yield message, None
                continue
            entry = (number, hash((topic, payload)) or 1)
            if not is_duplicate:
                if committed[number]:  # the number is reused, and soon
                    committed[number] = 0
                    self._reuses_numbers = True
            elif entry in self._earlier:
                pending[self._earlier.pop(entry)] = entry
                continue
            elif entry in pending.values():
                continue
            elif committed[number] == entry[1] and not self._reuses_numbers:
                known.append(number)
                continue
            token = next(tokens)
            pending[token] = entry
            yield message, token

    def commit(self, tokens: Iterable[int]) -> list[int]:
        """The numbers to acknowledge over this connection; a token that is unknown gives none."""
        pending, committed, numbers = self._pending, self._committed, list[int]()
        earlier = {token: entry for entry, token in self._earlier.items()} if self._earlier else {}
        for token in tokens:
            if entry := pending.pop(token, None):
                numbers.append(entry[0])
            elif entry := earlier.get(token):
                del self._earlier[entry]
            else:
                continue
            number, committed[number] = entry
            committed[number ^ HALF_ROUND] = 0
        return numbers


def _no_hashes() -> "memoryview[int]":
    """A zero for each number. As an anonymous map it takes memory only for the numbers that were used."""
    return memoryview(mmap(-1, 8 * NUMBERS)).cast("q")
