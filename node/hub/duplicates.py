"""Duplicate detection: which messages of a chain were already received.

A chain is one publisher's `msg_chain_id` in one stream partition. Its messages come in order, except that one may
name a predecessor that has not come: then everything between the last message and that predecessor is a declared gap,
and late messages that fill it are still new. A message that is neither newer than all before nor in a declared gap is
a duplicate or too late, and is dropped silently, as by real brokers.

    seen:   1 2 3 . . 6 7          a gap is declared by 6, whose predecessor is 5
    new:    4 (fills the gap), 8   not new: 2, 6, and 5.5, which no message declared to be missing

After a restart, or when a chain was dropped from memory, the messages before the next one of that chain are unknown. So
everything up to the predecessor of that message is a gap, too, and a neighbour may replay it. The storage recognises
what was stored before, because it stores no message twice.

Memory is bounded: `MAX_GAPS` per chain, of which the oldest is dropped first, and `MAX_CHAINS`, of which the least
recently used is dropped first. A node that starts loads the messages that it stored last (`seed`).
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

    def add(self, ref: MessageRef, previous: MessageRef | None) -> bool:
        """Record a message. Returns whether it is new."""
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
                del self._gaps[:-MAX_GAPS]  # a gap filled in its middle becomes two
                return True
        return False


def _rest_of_gap(after: tuple[int, int], last: MessageRef, ref: MessageRef, previous: MessageRef | None) -> list[Gap]:
    """The parts of a gap that are left after `ref` arrived: before its predecessor, and after itself."""
    rest: list[Gap] = []
    if previous is not None and after < previous < ref:
        rest.append((after, previous))
    if ref < last:
        rest.append((ref, last))
    return rest


class DuplicateFilter:
    """Finds duplicates in all chains."""

    def __init__(self, max_chains: int = MAX_CHAINS) -> None:
        self._chains: OrderedDict[ChainKey, ChainMemory] = OrderedDict()  # least recently used first
        self._max_chains = max_chains

    def seed(self, stored: Iterable[StreamMessage]) -> None:
        """Record messages that were stored before the node started, in any order."""
        for message in sorted(stored, key=lambda message: message.message_id.ref):
            self.add(message)

    def add(self, message: StreamMessage) -> bool:
        """Record a message. Returns whether it is new."""
        key = _chain_of(message)
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = ChainMemory()
            if len(self._chains) > self._max_chains:
                self._chains.popitem(last=False)
        self._chains.move_to_end(key)
        return chain.add(message.message_id.ref, message.prev_msg_ref)

    def remove_chain(self, message: StreamMessage) -> None:
        """Forget the whole chain of a message, because that message could not be stored."""
        self._chains.pop(_chain_of(message), None)


def _chain_of(message: StreamMessage) -> ChainKey:
    stream_id, partition, _, _, publisher_id, chain_id = message.message_id
    return stream_id, partition, publisher_id.lower(), chain_id
