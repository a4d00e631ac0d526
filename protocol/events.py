"""What a device says about its own data, as the content of ordinary signed messages.

A message whose InfoType is `headgate/gap` and whose InfoFormat is `application/cbor` tells of messages that were lost
before anyone else had them. Its ContentData is a map in deterministic CBOR (`protocol/strict_cbor.py`):

| key | what |
|---|---|
| journal | 16 bytes: the journal in which `number` counts |
| number | never used again in that journal, so that a loss told twice is counted once |
| chain | the device's name of the chain; empty where damage hides it |
| count | how many messages |
| first, last | [timestamp in ms, sequence number] of the first and last of them; null where the chain is empty |
| cause | a few words: `shed`, `damaged` |
| archived | true where an archive has them all the same: then they are missing to subscribers, and not to the lake |

The other message of this kind, a correction of the clock, is in `protocol/clock.py`.
"""

from dataclasses import dataclass
from typing import Final

from protocol import strict_cbor
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, CborValue, field, items

__all__ = ["GAP_INFO_TYPE", "MEDIA_TYPE", "GapNotice"]

GAP_INFO_TYPE: Final = "headgate/gap"
MEDIA_TYPE: Final = "application/cbor"

JOURNAL_ID_BYTES: Final = 16
MAX_CHAIN_BYTES: Final = 1024
MAX_CAUSE_BYTES: Final = 256
MAX_NUMBER: Final = 2**63 - 1
_BOUNDS: Final = CborBounds(max_bytes=4096, max_items=32, max_depth=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNotice:
    """Messages that were lost before anyone else had them. Where damage hides the chain, `chain` is empty."""

    journal: bytes
    number: int  # never used again in its journal, so that a loss told twice is counted once
    chain: str
    count: int
    first: tuple[int, int] | None  # timestamp in ms, sequence number
    last: tuple[int, int] | None
    cause: str
    archived: bool = False  # an archive has them all the same: they are missing to subscribers only

    def __post_init__(self) -> None:
        _check_within("journal bytes", len(self.journal), JOURNAL_ID_BYTES, JOURNAL_ID_BYTES)
        _check_within("number", self.number, 0, MAX_NUMBER)
        _check_within("chain bytes", len(self.chain.encode()), 0, MAX_CHAIN_BYTES)
        _check_within("count", self.count, 1, MAX_NUMBER)
        _check_within("cause bytes", len(self.cause.encode()), 1, MAX_CAUSE_BYTES)
        if (self.first is None) != (self.last is None) or bool(self.chain) != (self.first is not None):
            raise ValueError("first and last are there exactly where the chain is known")
        if self.first is not None and self.last is not None:
            self._check_references(self.first, self.last)

    def _check_references(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        for name, (timestamp_ms, sequence) in (("first", first), ("last", last)):
            _check_within(f"{name} timestamp_ms", timestamp_ms, 0, MAX_TIMESTAMP_MS)
            _check_within(f"{name} sequence", sequence, 0, MAX_SEQUENCE)
        if last < first:
            raise ValueError(f"last {last} is before first {first}")

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {
                "journal": self.journal,
                "number": self.number,
                "chain": self.chain,
                "count": self.count,
                "first": None if self.first is None else list(self.first),
                "last": None if self.last is None else list(self.last),
                "cause": self.cause,
                "archived": self.archived,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "GapNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("gap notice"):
            value = strict_cbor.decode(data, _BOUNDS)
            names = ("journal", "number", "chain", "count", "first", "last", "cause", "archived")
            found = strict_cbor.fields(value, *names)
            return cls(
                journal=field(found["journal"], bytes),
                number=field(found["number"], int),
                chain=field(found["chain"], str),
                count=field(found["count"], int),
                first=_reference_from_cbor(found["first"]),
                last=_reference_from_cbor(found["last"]),
                cause=field(found["cause"], str),
                archived=field(found["archived"], bool),
            )


def _reference_from_cbor(value: CborValue) -> tuple[int, int] | None:
    if value is None:
        return None
    timestamp_ms, sequence = items(value, 2)
    return field(timestamp_ms, int), field(sequence, int)


def _check_within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not within {low}..{high}")
