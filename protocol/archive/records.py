"""The records of an archive: signed messages with their journal positions and times of arrival."""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from protocol.archive.limits import MAX_CHAIN_BYTES
from protocol.reference import Reference


class Record(NamedTuple):
    """One signed message, unchanged, and its arrival.

    A plain tuple: blocks are encoded, checked and decoded by whole columns, which is many times faster than by records.
    """

    text: bytes
    chain: str  # opaque here: equal for messages of one chain, different otherwise
    timestamp_ms: int
    sequence: int
    lane: int
    position: int  # in the journal; increases within a lane by at least the number of readings
    arrived_at_ms: int  # by the device's clock, when it was committed to the journal
    readings: int = 1  # in the message; each has a position of its own, `position` is that of the first

    @property
    def reference(self) -> Reference:
        return Reference(self.timestamp_ms, self.sequence)

    @property
    def next_position(self) -> int:
        """The first position after its readings."""
        return self.position + self.readings


class Columns(NamedTuple):
    """The records of a block, field by field, in the order of `Record`'s fields. All columns have the same length."""

    texts: Sequence[bytes]
    chains: Sequence[str]
    timestamps_ms: Sequence[int]
    sequences: Sequence[int]
    lanes: Sequence[int]
    positions: Sequence[int]
    arrivals_ms: Sequence[int]
    readings: Sequence[int]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Columns":
        return cls(*zip(*records, strict=True))

    def record(self, index: int) -> Record:
        return Record._make(column[index] for column in self)

    def at(self, indexes: Sequence[int]) -> "Columns":
        """The columns of these records only."""
        pick = itemgetter(*indexes) if len(indexes) > 1 else lambda column: (column[indexes[0]],)
        return Columns(*map(pick, self))

    def records(self) -> list[Record]:
        return list(map(Record._make, zip(*self, strict=True)))


def check_chain(chain: str) -> None:
    if not 1 <= len(chain.encode()) <= MAX_CHAIN_BYTES:
        raise ValueError(f"chain key of {len(chain.encode())} bytes, not within 1..{MAX_CHAIN_BYTES}")
