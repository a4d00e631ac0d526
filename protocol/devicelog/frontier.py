"""The right edge of a log's tree: enough to append to the log and to know its root, in a few hundred bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from protocol.checks import check_length, check_within
from protocol.devicelog.merkle import EMPTY_ROOT, HASH_BYTES, leaf_hash, node_hash
from protocol.strict_cbor import CborValue, field, invalid_is_corrupt, items

MAX_LOG_SIZE = 2**32  # archives


@dataclass(frozen=True, slots=True)
class Frontier:
    """The size of a log and the roots of its full subtrees, one for each 1 in the binary form of the size.

    It is written as a CBOR array: [size, [root of the largest subtree, …, of the smallest]].
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()  # largest subtree first

    def __post_init__(self) -> None:
        check_within("log size", self.size, 0, MAX_LOG_SIZE)
        check_within(f"subtrees of a log of {self.size}", len(self.peaks), self.size.bit_count(), self.size.bit_count())
        for peak in self.peaks:
            check_length("subtree root", peak, HASH_BYTES)

    @property
    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY_ROOT
        return reduce(lambda right, left: node_hash(left, right), reversed(self.peaks))

    def append(self, data: bytes) -> "Frontier":
        """The frontier of the log with one more leaf. Raises: ValueError if the log is full."""
        peaks, node, rest = list(self.peaks), leaf_hash(data), self.size
        while rest & 1:
            node, rest = node_hash(peaks.pop(), node), rest >> 1
        return Frontier(self.size + 1, (*peaks, node))

    def extend(self, leaves: Iterable[bytes]) -> "Frontier":
        return reduce(Frontier.append, leaves, self)

    def to_cbor(self) -> CborValue:
        return [self.size, list(self.peaks)]

    @classmethod
    def from_cbor(cls, value: CborValue) -> "Frontier":
        """Raises: Corrupt."""
        with invalid_is_corrupt("frontier"):
            size, peaks = items(value, 2)
            return cls(field(size, int), tuple(field(peak, bytes) for peak in items(peaks)))
