"""The values of the journal: an entry to store, the record it becomes, and the loss of a record.

Positions number readings: a record at position p with n readings covers the positions p to p + n - 1 of its lane.

`Entry` and `Record` are named tuples rather than dataclasses: they are made for every message on the hot path, where
a frozen dataclass costs more than all other work for a record.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from protocol.losses import Cause, Loss
from protocol.reference import MAX_TIMESTAMP_MS, Reference

MAX_LANES = 32  # lane 0 is the most important
MAX_CHAIN_BYTES = 255
MAX_RECORD_READINGS = 65_535
MAX_POSITION = 2**62  # so that counting on from it is safe


class Entry(NamedTuple):
    """A message to be stored. The journal never reads the payload; the other fields describe it if it is lost."""

    payload: bytes
    chain: str  # all entries of a chain go to one lane, or their order is lost
    timestamp_ms: int
    sequence: int
    readings: int = 1  # in the message


class Record(NamedTuple):
    """An entry that was committed. `position` is that of its first reading; no position of a lane is used twice."""

    position: int
    lane: int
    payload: bytes
    chain: str
    timestamp_ms: int
    sequence: int
    committed_at_ms: int  # by the clock of that moment
    readings: int = 1

    @property
    def next_position(self) -> int:
        """The position after its last reading."""
        return self.position + self.readings

    @property
    def entry(self) -> Entry:
        return Entry(self.payload, self.chain, self.timestamp_ms, self.sequence, self.readings)


def positions_from(first_position: int, readings: Iterable[int]) -> list[int]:
    """The positions of entries with so many readings each, and behind them the next free one."""
    return list(accumulate(readings, initial=first_position))


def loss_of(record: Record, cause: Cause) -> Loss:
    """The loss of one record. An impossible chain or reference, from a damaged block, becomes unknown."""
    reference = Reference(record.timestamp_ms, record.sequence)
    is_known = bool(record.chain) and record.timestamp_ms <= MAX_TIMESTAMP_MS
    return Loss(
        lane=record.lane,
        chain=record.chain if is_known else "",
        first_position=record.position,
        last_position=record.next_position - 1,
        count=record.readings,
        first=reference if is_known else None,
        last=reference if is_known else None,
        cause=cause,
    )


def damage(lane: int, first_position: int, end_position: int, count: int | None = None) -> Loss:
    """The loss by damage of the positions from `first_position` up to, not including, `end_position`."""
    return Loss(
        lane=lane,
        chain="",
        first_position=first_position,
        last_position=end_position - 1,
        count=end_position - first_position if count is None else count,
        first=None,
        last=None,
        cause=Cause.DAMAGED,
    )


def not_below(loss: Loss, position: int) -> Loss | None:
    """What is lost to a reader that has everything below `position`. A record that it has in part is lost whole."""
    if loss.last_position < position:
        return None
    if loss.chain or loss.first_position >= position:
        return loss
    return replace(loss, first_position=position, count=min(loss.count, loss.last_position + 1 - position))


def joined(one: Loss, other: Loss) -> Loss:
    """Both losses, which have one cause, as one. A chain that differs becomes unknown."""
    chain, first, last = "", None, None
    if one.chain == other.chain and one.first and one.last and other.first and other.last:
        chain, first, last = one.chain, min(one.first, other.first), max(one.last, other.last)
    return replace(
        one,
        chain=chain,
        first_position=min(one.first_position, other.first_position),
        last_position=max(one.last_position, other.last_position),
        count=one.count + other.count,
        first=first,
        last=last,
    )


class LossTally:
    """Adds up losses per chain in memory that depends on the number of chains, not of records. Counts readings.

    Those of records below `copied_below`, of which some cursor has a copy of its own, are not mixed with the others.
    """

    def __init__(self, cause: Cause, copied_below: int = 0) -> None:
        self._cause = cause
        self._copied_below = copied_below
        self._per_chain: dict[tuple[str, bool], Loss] = {}

    def add_records(self, records: Iterable[Record]) -> None:
        """Records of one lane, by rising position."""
        per_chain: dict[tuple[str, bool], list[Record]] = {}
        for record in records:
            per_chain.setdefault((record.chain, record.next_position <= self._copied_below), []).append(record)
        for lost in per_chain.values():
            self.add(_loss_of_run(lost, self._cause))

    def add(self, loss: Loss) -> None:
        key = (loss.chain, loss.last_position < self._copied_below)
        known = self._per_chain.get(key)
        self._per_chain[key] = loss if known is None else joined(known, loss)

    def losses(self) -> list[Loss]:
        return list(self._per_chain.values())


def _loss_of_run(records: list[Record], cause: Cause) -> Loss:
    """Records of one chain, whose references rise as their positions do."""
    loss = loss_of(records[0], cause)
    if len(records) == 1:
        return loss
    return replace(joined(loss, loss_of(records[-1], cause)), count=sum([record.readings for record in records]))
