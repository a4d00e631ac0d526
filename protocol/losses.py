"""A loss: positions of one lane of a device's journal whose messages are gone, and why.

The same value travels from the journal, which records the loss, through the signed gap notice (`protocol/events.py`)
and the archive's manifest (`protocol/archive/manifest.py`) to the lake, which explains the gaps of its chains with it.
Both formats hold it as the same CBOR array:

    [number, lane, chain, first position, last position, count, first, last, cause]

`first` and `last` are [timestamp in ms, sequence number]. Where damage hides the chain, `chain` is empty and both are
null.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS, Reference
from protocol.strict_cbor import CborValue, field, items

__all__ = ["MAX_LANE", "MAX_POSITION", "Cause", "Loss", "reference_from_cbor"]

MAX_POSITION: Final = 2**63 - 1
MAX_LANE: Final = 255
MAX_CHAIN_BYTES: Final = 1024
MAX_CAUSE_BYTES: Final = 256


class Cause(StrEnum):
    """Why this journal loses messages. A reader accepts any other text."""

    SHED = "shed"  # dropped, oldest first, to make room
    THINNED = "thinned"  # every second one dropped to make room
    NO_ROOM = "no room"  # never stored: everything stored was more important
    DAMAGED = "damaged"  # the medium did not give back what was written
    REFUSED = "refused"  # a destination refused it, and the file that held it was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one lane that are gone."""

    number: int = 0  # of the loss in its journal, so that one reported twice counts once; 0: not recorded yet
    lane: int
    chain: str  # empty where damage hides it
    first_position: int
    last_position: int
    count: int  # how many are lost; others between the two positions may be stored
    first: Reference | None
    last: Reference | None
    cause: str

    def __post_init__(self) -> None:
        """Raises: ValueError."""
        _check_within("number", self.number, 0, MAX_POSITION)
        _check_within("lane", self.lane, 0, MAX_LANE)
        _check_within("first_position", self.first_position, 0, MAX_POSITION)
        _check_within("last_position", self.last_position, self.first_position, MAX_POSITION)
        _check_within("count", self.count, 1, MAX_POSITION)
        _check_within("cause bytes", len(self.cause.encode()), 1, MAX_CAUSE_BYTES)
        _check_within("chain bytes", len(self.chain.encode()), 0, MAX_CHAIN_BYTES)
        if (self.first is None) != (self.last is None) or bool(self.chain) != (self.first is not None):
            raise ValueError("first and last are there exactly where the chain is known")
        if self.first is not None and self.last is not None:
            _check_references(self.first, self.last)

    def to_cbor(self) -> CborValue:
        first, last = (None if each is None else list[CborValue](each) for each in (self.first, self.last))
        positions = (self.first_position, self.last_position)
        return [self.number, self.lane, self.chain, *positions, self.count, first, last, str(self.cause)]

    @classmethod
    def from_cbor(cls, value: CborValue) -> "Loss":
        """Raises: WireError, or ValueError if the fields contradict each other."""
        number, lane, chain, first_position, last_position, count, first, last, cause = items(value, 9)
        return cls(
            number=field(number, int),
            lane=field(lane, int),
            chain=field(chain, str),
            first_position=field(first_position, int),
            last_position=field(last_position, int),
            count=field(count, int),
            first=None if first is None else reference_from_cbor(first),
            last=None if last is None else reference_from_cbor(last),
            cause=field(cause, str),
        )


def reference_from_cbor(value: CborValue) -> Reference:
    timestamp_ms, sequence = items(value, 2)
    return Reference(field(timestamp_ms, int), field(sequence, int))


def _check_references(first: Reference, last: Reference) -> None:
    for name, (timestamp_ms, sequence) in (("first", first), ("last", last)):
        _check_within(f"{name} timestamp_ms", timestamp_ms, 0, MAX_TIMESTAMP_MS)
        _check_within(f"{name} sequence", sequence, 0, MAX_SEQUENCE)
    if last < first:
        raise ValueError(f"last {tuple(last)} is before first {tuple(first)}")


def _check_within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not within {low}..{high}")
