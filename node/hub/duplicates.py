"""Duplicate detection: which messages of a chain were already received.

A chain is one publisher's `msg_chain_id` in one stream partition. Its messages come in order, except that one may
name a predecessor that has not come: then everything between the last message and that predecessor is a declared gap,
and late messages that fill it are still new. A message that is neither newer than all before nor in a declared gap is
a duplicate or too late, and real brokers drop it without a word. So does the node.

    seen:   1 2 3 . . 6 7          a gap is declared by 6, whose predecessor is 5
    new:    4 (fills the gap), 8   not new: 2, 6, and 5.5, which no message declared to be missing

Nothing is known of what came before the first message that is remembered of a chain: after a restart, or when the chain
was forgotten. So everything up to that message's predecessor is a gap as well, and a neighbour may replay it. What was
stored of it before is caught by the storage, which stores no message twice.

Memory is bounded: a chain remembers so many gaps, the oldest being given up first; so many chains are remembered, the
one longest unheard of being forgotten first. A node that starts reads the messages that it stored last (`seed`).
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import StreamMessage

MAX_GAPS: Final = 1_000
MAX_CHAINS: Final = 10_000
BEGINNING: Final = (-1, -1)  # before every reference

Gap = tuple[tuple[int, int], MessageRef]  # after the first reference, up to and with the second
ChainKey = tuple[str, int, str, str]  # stream, partition, publisher in lower case, chain


class ChainMemory:
    """The newest reference of one chain, and the gaps before it that may still be filled."""

    __slots__ = ("_gaps", "_newest")

    def __init__(self) -> None:
        self._newest: MessageRef | None = None
        self._gaps: list[Gap] = []  # ascending

    def take(self, ref: MessageRef, previous: MessageRef | None) -> bool:
        """Whether the message is new. It is remembered as seen from then on."""
        if self._newest is None or ref > self._newest:
            self._advance(ref, previous)
            return True
        return self._fill(ref, previous)

    def _advance(self, ref: MessageRef, previous: MessageRef | None) -> None:
        last_known = BEGINNING if self._newest is None else self._newest
        if previous is not None and last_known < previous < ref:
            self._gaps.append((last_known, previous))
            del self._gaps[:-MAX_GAPS]
        self._newest = ref

    def _fill(self, ref: MessageRef, previous: MessageRef | None) -> bool:
        for index, (after, last) in enumerate(self._gaps):
            if after < ref <= last:
                self._gaps[index : index + 1] = _rest_of_gap(after, last, ref, previous)
                del self._gaps[:-MAX_GAPS]  # one that is filled in its middle becomes two
                return True
        return False


def _rest_of_gap(after: tuple[int, int], last: MessageRef, ref: MessageRef, previous: MessageRef | None) -> list[Gap]:
    """What is still missing once `ref` has come: what lies before its predecessor, and what lies after itself."""
    rest: list[Gap] = []
    if previous is not None and after < previous < ref:
        rest.append((after, previous))
    if ref < last:
        rest.append((ref, last))
    return rest


class DuplicateFilter:
    """The memory of all chains."""

    def __init__(self, max_chains: int = MAX_CHAINS) -> None:
        self._chains: OrderedDict[ChainKey, ChainMemory] = OrderedDict()  # the longest unheard of first
        self._max_chains = max_chains

    def seed(self, stored: Iterable[StreamMessage]) -> None:
        """Remember messages that were stored before the node started, in any order."""
        for message in sorted(stored, key=lambda message: message.message_id.ref):
            self.take(message)

    def take(self, message: StreamMessage) -> bool:
        """Whether the message is new. It is remembered as seen from then on."""
        key = _chain_of(message)
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = ChainMemory()
            if len(self._chains) > self._max_chains:
                self._chains.popitem(last=False)
        self._chains.move_to_end(key)
        return chain.take(message.message_id.ref, message.prev_msg_ref)

    def forget(self, message: StreamMessage) -> None:
        """Take the whole chain of a message for unseen, because that message was not kept after all."""
        self._chains.pop(_chain_of(message), None)


def _chain_of(message: StreamMessage) -> ChainKey:
    stream_id, partition, _, _, publisher_id, chain_id = message.message_id
    return stream_id, partition, publisher_id.lower(), chain_id
