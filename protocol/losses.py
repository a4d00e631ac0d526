"""A loss: positions of one lane of a device's journal whose messages are gone, and why.

The journal records the loss. The signed gap notice (`protocol/events.py`) and the manifest of the archive
(`protocol/archive/manifest.py`) carry it to the lake, which explains the gaps of its chains with it. Both formats write
it as the same CBOR array:

    [number, lane, chain, first position, last position, count, first, last, cause]

`first` and `last` are [timestamp in ms, sequence number]. Where damage hides the chain, `chain` is empty and both are
null.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from protocol.checks import check_text, check_within
from protocol.reference import Reference, check_reference
from protocol.strict_cbor import CborValue, field, items

MAX_POSITION: Final = 2**63 - 1
MAX_LANE: Final = 255
MAX_CHAIN_BYTES: Final = 1024
MAX_CAUSE_BYTES: Final = 256


class Cause(StrEnum):
    """The causes that a journal writes. A reader accepts any other text."""

    SHED = "shed"  # dropped, oldest first, to free space
    THINNED = "thinned"  # every second one dropped to free space
    JOURNAL_FULL = "journal full"  # never stored: everything stored was more important
    DAMAGED = "damaged"  # the medium returned something else than was written
    UNFINISHED = "unfinished"  # a power cut came during its commit: its source was not told that it was stored
    REFUSED = "refused"  # a destination refused it, and its quarantine file was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one lane that are gone."""

    number: int = 0  # identifies the loss in its journal, however often it is reported; 0: not recorded yet
    lane: int
    chain: str  # empty where damage hides it
    first_position: int
    last_position: int
    count: int  # of lost messages; others between the two positions may be stored
    first: Reference | None
    last: Reference | None
    cause: str

    def __post_init__(self) -> None:
        """Raises: ValueError."""
        check_within("number", self.number, 0, MAX_POSITION)
        check_within("lane", self.lane, 0, MAX_LANE)
        check_within("first_position", self.first_position, 0, MAX_POSITION)
        check_within("last_position", self.last_position, self.first_position, MAX_POSITION)
        check_within("count", self.count, 1, MAX_POSITION)
        check_within("cause bytes", len(self.cause.encode()), 1, MAX_CAUSE_BYTES)
        check_text("chain", self.chain, MAX_CHAIN_BYTES)
        if (self.first is None) != (self.last is None) or bool(self.chain) != (self.first is not None):
            raise ValueError("first and last must be present if the chain is known, and absent if it is not")
        if self.first is not None and self.last is not None:
            check_reference("first", self.first)
            check_reference("last", self.last)
            if self.last < self.first:
                raise ValueError(f"last {tuple(self.last)} is before first {tuple(self.first)}")

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
            first=None if first is None else Reference.from_cbor(first),
            last=None if last is None else Reference.from_cbor(last),
            cause=field(cause, str),
        )
