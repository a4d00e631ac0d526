"""The hash chain of ioMessages: each message holds its own hash and that of the previous message.

`hash` is the SHA-256, in lower-case hex, of the minimal binary embodiment with the hash field empty. `previous_hash` is
the hash of the previous message, absent on the first; `chain_position` counts from 0. `difficulty_target` is the number
of leading zero bits the hash must have, and `nonce` is the value that was found to reach it; 0 requires no work.

A linked message has every integer, so that its hash survives other writers, most of which write 0 for an absent one.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final, NamedTuple, Self

from protocol.errors import WireError
from protocol.iomessage import as_bytes
from protocol.iomessage.fields import Fields
from protocol.iomessage.message import IoMessage

HASH_BITS: Final = 256
MAX_LINKS: Final = 4096


class ChainHead(NamedTuple):
    """The last message of a chain, which the next message must name. `EMPTY_CHAIN` before the first."""

    position: int
    hash: str | None

    @classmethod
    def of(cls, message: IoMessage) -> Self:
        """The head after `message`, which must be linked.

        Raises:
            ValueError: the message has no chain position.
        """
        if message.chain_position is None:
            raise ValueError(f"message {message.id} is not linked: it has no chain position")
        return cls(message.chain_position, message.hash)


EMPTY_CHAIN: Final = ChainHead(position=-1, hash=None)


def message_hash(message: IoMessage) -> str:
    """The correct value of the `hash` field of this message.

    Raises:
        Corrupt: the message is of another writer and cannot be encoded.
    """
    return _digest(Fields._make(message)._replace(hash=None))


def hash_link(message: IoMessage, head: ChainHead, *, difficulty_target: int = 0) -> IoMessage:
    """The message as the next link after `head`. The work doubles with every bit of difficulty.

    Raises:
        ValueError: the message lacks a required field, or more zero bits are required than a hash has.
    """
    if not 0 <= difficulty_target <= HASH_BITS:
        raise ValueError(f"difficulty_target must be between 0 and {HASH_BITS} bits, and is {difficulty_target}")
    if message.missing:
        raise ValueError(f"a message without {', '.join(message.missing)} is not linked")
    unlinked = Fields._make(message)._replace(
        sequence_number=message.sequence_number or 0,
        sequence_total=message.sequence_total or 0,
        priority=message.priority or 0,
        chain_position=head.position + 1,
        hash=None,
        previous_hash=head.hash,
        nonce=None,
        difficulty_target=difficulty_target,
    )
    return tuple.__new__(IoMessage, _with_hash(unlinked))


def _with_hash(fields: Fields) -> Fields:
    if not fields.difficulty_target:
        return fields._replace(hash=_digest(fields))
    tries = (fields._replace(nonce=str(number)) for number in count())
    worked = ((each, _digest(each)) for each in tries)
    found, digest = next(pair for pair in worked if leading_zero_bits(pair[1]) >= fields.difficulty_target)
    return found._replace(hash=digest)


def _digest(fields: Fields) -> str:
    return hashlib.sha256(as_bytes.encode(fields)).hexdigest()


def leading_zero_bits(digest: str) -> int:
    """Of a SHA-256 in hex."""
    return HASH_BITS - int(digest, 16).bit_length()


class BreakKind(Enum):
    UNLINKED = "unlinked"  # it has no hash or no position
    ALTERED = "altered"  # its hash is not that of its content
    UNWORKED = "unworked"  # its hash has fewer zero bits than its difficulty target requires
    MISSING = "missing"  # messages before it were skipped
    REORDERED = "reordered"  # its position is before that of messages received earlier
    REPEATED = "repeated"  # the same message was received before
    FORKED = "forked"  # it contradicts the message that was received for a position


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """A break of a chain: the message and the reason."""

    index: int  # in the sequence of messages checked, from 0
    message_id: str | None
    kind: BreakKind
    detail: str

    def __str__(self) -> str:
        return f"message {self.index} (id {self.message_id}) is {self.kind.value}: {self.detail}"


class _Link(NamedTuple):
    hash: str
    previous_hash: str | None


class ChainVerifier:
    """Checks one chain, message by message. It holds the last `MAX_LINKS` links.

    A message that arrives late is reported twice: MISSING at its proper place, REORDERED where it arrived.
    """

    def __init__(self, head: ChainHead | None = None) -> None:
        """Start after `head` or, without one, at the first message checked."""
        self._head = head
        self._links: OrderedDict[int, _Link] = OrderedDict()
        self._index = -1

    def check(self, message: IoMessage) -> ChainBreak | None:
        """The break at the next message, if there is one. Checking continues after it."""
        self._index += 1
        if not message.hash or message.chain_position is None:
            return self._break(message, BreakKind.UNLINKED, "it carries no hash or no chain position")
        position, link = message.chain_position, _Link(message.hash, message.previous_hash or None)
        mismatch = self._check_hash(message)
        if mismatch is None:
            return self._check_link(message, position, link)
        if self._head is not None and position == self._head.position + 1:
            self._advance(position, link)  # the next message names the hash that this one claims
        return mismatch

    def _check_hash(self, message: IoMessage) -> ChainBreak | None:
        try:
            digest = message_hash(message)
        except WireError as error:
            return self._break(message, BreakKind.ALTERED, f"it cannot be hashed: {error}")
        if digest != message.hash:
            return self._break(message, BreakKind.ALTERED, f"its content hashes to {digest}, its hash field differs")
        if leading_zero_bits(digest) < (target := message.difficulty_target or 0):
            return self._break(message, BreakKind.UNWORKED, f"its hash does not begin with {target} zero bits")
        return None

    def _check_link(self, message: IoMessage, position: int, link: _Link) -> ChainBreak | None:
        if self._head is not None and position <= self._head.position:
            return self._check_late(message, position, link)
        head = self._head
        self._advance(position, link)
        if head is None or (position == head.position + 1 and link.previous_hash == head.hash):
            return None
        if position == head.position + 1:
            return self._break(
                message, BreakKind.FORKED, f"it does not follow the message received for position {head.position}"
            )
        gap = f"{position - head.position - 1} messages, positions {head.position + 1} to {position - 1}"
        return self._break(message, BreakKind.MISSING, f"{gap}, are missing before it")

    def _check_late(self, message: IoMessage, position: int, link: _Link) -> ChainBreak:
        if (known := self._links.get(position)) is not None:
            if known.hash == link.hash:
                return self._break(message, BreakKind.REPEATED, f"position {position} is repeated, with the same hash")
            return self._break(message, BreakKind.FORKED, f"position {position} is repeated, with another hash")
        before, after = self._links.get(position - 1), self._links.get(position + 1)
        self._add_link(position, link)
        if (before and before.hash != link.previous_hash) or (after and after.previous_hash != link.hash):
            return self._break(
                message, BreakKind.FORKED, f"it does not fit between its neighbours at position {position}"
            )
        return self._break(message, BreakKind.REORDERED, f"position {position} arrives after later ones")

    def _advance(self, position: int, link: _Link) -> None:
        self._head = ChainHead(position, link.hash)
        self._add_link(position, link)

    def _add_link(self, position: int, link: _Link) -> None:
        self._links[position] = link
        if len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)

    def _break(self, message: IoMessage, kind: BreakKind, detail: str) -> ChainBreak:
        return ChainBreak(index=self._index, message_id=message.id, kind=kind, detail=detail)


def verify_chain(messages: Iterable[IoMessage], *, head: ChainHead | None = None) -> Iterator[ChainBreak]:
    """Every break in a sequence of messages, in order."""
    verifier = ChainVerifier(head)
    return (found for message in messages if (found := verifier.check(message)) is not None)
