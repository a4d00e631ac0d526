"""Checks of the readings in verified messages: whether they came before, and whether their hash chain holds.

Memory is bounded: the messages and chains used longest ago are dropped.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.iomessage import ChainBreak, ChainHead, IoMessage, verify_chain
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage

MAX_SEEN_MESSAGES: Final = 10_000
MAX_FOLLOWED_CHAINS: Final = 10_000


class SeenMessages:
    """The hash of the first reading of each message, and the message that it came in."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], MessageID] = {}  # by publisher and hash; the oldest first

    def is_duplicate(self, message: StreamMessage, readings: Sequence[IoMessage]) -> bool:
        """Whether the readings came before, in another message: the same signed text, cut into other fields."""
        first = readings[0].hash if readings else None
        if not first:
            return False
        name = (message.message_id.publisher_id.lower(), first)
        if len(self._seen) >= MAX_SEEN_MESSAGES:
            del self._seen[next(iter(self._seen))]
        return self._seen.setdefault(name, message.message_id) != message.message_id


class _ChainEnd(NamedTuple):
    """The last message of a chain, and the last reading in it."""

    ref: MessageRef
    head: ChainHead


class HashChains:
    """The hash chain through the messages of each chain. It begins anew after a message that was not seen."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str], _ChainEnd] = {}  # by publisher and chain; the oldest first

    def follow(self, message: StreamMessage, readings: Sequence[IoMessage]) -> list[ChainBreak]:
        """The breaks within a message, and between it and the previous one."""
        name = (message.message_id.publisher_id.lower(), message.message_id.msg_chain_id)
        end = self._ends.pop(name, None)
        if readings and readings[-1].chain_position is not None:
            self._store(name, _ChainEnd(message.message_id.ref, ChainHead.of(readings[-1])))
        return chain_breaks(readings, end.head if end is not None and end.ref == message.prev_msg_ref else None)

    def _store(self, name: tuple[str, str], end: _ChainEnd) -> None:
        if len(self._ends) >= MAX_FOLLOWED_CHAINS:
            del self._ends[next(iter(self._ends))]
        self._ends[name] = end


def chain_breaks(readings: Sequence[IoMessage], head: ChainHead | None = None) -> list[ChainBreak]:
    """The breaks of the hash chain within a message; none where no reading has a hash, as of other writers."""
    return list(verify_chain(readings, head=head)) if any(reading.hash for reading in readings) else []


def break_text(breaks: Sequence[ChainBreak], readings: int) -> str:
    """How many of the readings break the chain, and the first of them."""
    first = breaks[0]
    return f"{len(breaks)} of {readings} readings; reading {first.index} is {first.kind.value}: {first.detail}"
