"""The values that go in and come out: an entry to keep, the record it became, and the loss when a record is gone.

`Entry` and `Record` are named tuples rather than dataclasses: they are made for every message on the hot path, where
a frozen dataclass costs more than all else the journal does for a record.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from protocol.reference import Reference

MAX_LANES = 32  # lane 0 is the most important
MAX_CHAIN_BYTES = 255


class Entry(NamedTuple):
    """What the journal is asked to keep. It never looks into the payload; the rest tells of it when it is lost."""

    payload: bytes
    chain: str  # all entries of a chain go to one lane, or their order is lost
    timestamp_ms: int
    sequence: int


class Record(NamedTuple):
    """An entry that was committed. `position` rises by one per entry within a lane and is never used twice."""

    position: int
    lane: int
    payload: bytes
    chain: str
    timestamp_ms: int
    sequence: int
    committed_at_ms: int  # by the clock of that moment

    @property
    def entry(self) -> Entry:
        return Entry(self.payload, self.chain, self.timestamp_ms, self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of one chain that are gone. Where the chain is not known, it is empty and the references are None."""

    lane: int
    chain: str
    first_position: int
    last_position: int
    count: int  # of the positions between first and last
    first: Reference | None
    last: Reference | None


def loss_of(record: Record) -> Loss:
    reference = Reference(record.timestamp_ms, record.sequence)
    return Loss(
        lane=record.lane,
        chain=record.chain,
        first_position=record.position,
        last_position=record.position,
        count=1,
        first=reference,
        last=reference,
    )


def unknown_loss(lane: int, first_position: int, end_position: int) -> Loss:
    """Whatever stood from `first_position` up to, not including, `end_position`."""
    return Loss(
        lane=lane,
        chain="",
        first_position=first_position,
        last_position=end_position - 1,
        count=end_position - first_position,
        first=None,
        last=None,
    )


def joined(one: Loss, other: Loss) -> Loss:
    """Both losses as one. A chain that differs becomes unknown."""
    begins = min(one, other, key=lambda loss: loss.first_position)
    ends = max(one, other, key=lambda loss: loss.last_position)  # the same one, where the other lies within it
    same_chain = one.chain == other.chain
    return replace(
        begins,
        chain=begins.chain if same_chain else "",
        last_position=ends.last_position,
        count=one.count + other.count,
        first=begins.first if same_chain else None,
        last=ends.last if same_chain else None,
    )


class LossTally:
    """Adds up losses per chain in memory that depends on the number of chains, not of records.

    Those of records below `kept_below`, of which somebody keeps a copy, are not mixed with the others.
    """

    def __init__(self, kept_below: int = 0) -> None:
        self._kept_below = kept_below
        self._per_chain: dict[tuple[str, bool], Loss] = {}

    def add_records(self, records: Iterable[Record]) -> None:
        """Records of one lane, by rising position."""
        per_chain: dict[tuple[str, bool], list[Record]] = {}
        for record in records:
            per_chain.setdefault((record.chain, record.position < self._kept_below), []).append(record)
        for lost in per_chain.values():
            first, last = loss_of(lost[0]), loss_of(lost[-1])
            self.add(replace(first, last_position=last.last_position, last=last.last, count=len(lost)))

    def add(self, loss: Loss) -> None:
        key = (loss.chain, loss.last_position < self._kept_below)
        known = self._per_chain.get(key)
        self._per_chain[key] = loss if known is None else joined(known, loss)

    def losses(self) -> list[Loss]:
        return list(self._per_chain.values())
