"""What an archive keeps: signed texts with where and when they came in, and what was lost before it could be kept."""

from dataclasses import dataclass
from typing import NamedTuple

from protocol.archive.limits import MAX_CHAIN_BYTES, MAX_REASON_BYTES

MAX_POSITION = 2**63 - 1
MAX_TIMESTAMP_MS = 2**53 - 1  # what JSON carries exactly
MAX_SEQUENCE = 2**32 - 1
MAX_LANE = 255


class Reference(NamedTuple):
    """A message's place in its chain. Of two references of one chain, the greater tuple is the later message."""

    timestamp_ms: int
    sequence: int


class Record(NamedTuple):
    """One signed message, untouched, and its arrival.

    A plain tuple, since blocks are packed and unpacked by whole columns; `encode_block` checks the ranges.
    """

    text: bytes
    chain: str  # opaque here: equal for messages of one chain, different otherwise
    timestamp_ms: int
    sequence: int
    lane: int
    position: int  # in the journal; strictly increases within a lane
    arrived_at_ms: int  # by the device's clock, when the reading came in

    @property
    def reference(self) -> Reference:
        return Reference(self.timestamp_ms, self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one chain that were dropped before they could be archived, as the journal noted it."""

    chain: str
    count: int
    first: Reference
    last: Reference
    reason: str
    lane: int
    position: int  # of the note itself

    def __post_init__(self) -> None:
        check_chain(self.chain)
        check_within("count", self.count, 1, MAX_POSITION)
        check_reference("first", self.first)
        check_reference("last", self.last)
        check_within("lane", self.lane, 0, MAX_LANE)
        check_within("position", self.position, 0, MAX_POSITION)
        if self.last < self.first:
            raise ValueError(f"last {tuple(self.last)} is before first {tuple(self.first)}")
        if len(self.reason.encode()) > MAX_REASON_BYTES:
            raise ValueError(f"reason of {len(self.reason.encode())} bytes, at most {MAX_REASON_BYTES}")


def check_within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not within {low}..{high}")


def check_reference(name: str, reference: Reference) -> None:
    check_within(f"{name} timestamp_ms", reference.timestamp_ms, 0, MAX_TIMESTAMP_MS)
    check_within(f"{name} sequence", reference.sequence, 0, MAX_SEQUENCE)


def check_chain(chain: str) -> None:
    if not 1 <= len(chain.encode()) <= MAX_CHAIN_BYTES:
        raise ValueError(f"chain key of {len(chain.encode())} bytes, not within 1..{MAX_CHAIN_BYTES}")
