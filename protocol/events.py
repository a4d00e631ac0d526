"""What a device says about its own data, as the content of ordinary signed messages.

A message whose InfoType is `headgate/gap` and whose InfoFormat is `application/cbor` tells of messages that were lost
before anyone else had them. Its ContentData is a map in deterministic CBOR (`protocol/strict_cbor.py`):

| key | what |
|---|---|
| journal | 16 bytes: the journal in which the number of the loss counts |
| loss | which messages, and why: an array, as in the manifest of an archive (`protocol/losses.py`) |
| archived | true where an archive has them all the same: then they are missing to subscribers, and not to the lake |

A message whose InfoType is `headgate/refused` reports readings that no message can hold: too large, or without a
possible stream. It is committed with the readings that came with them, before their source is acknowledged.

| key | what |
|---|---|
| sensor, quantity | of the readings; both empty where they are of too many kinds to be named |
| count | how many readings, of this commit |
| reason | why the first of them was refused |

The other message of this kind, a correction of the clock, is in `protocol/clock.py`.
"""

from dataclasses import dataclass
from typing import Final

from protocol import strict_cbor
from protocol.losses import Loss
from protocol.strict_cbor import CborBounds, field

__all__ = ["GAP_INFO_TYPE", "MAX_NOTICE_TEXT_BYTES", "MEDIA_TYPE", "REFUSED_INFO_TYPE", "GapNotice", "RefusedNotice"]

GAP_INFO_TYPE: Final = "headgate/gap"
REFUSED_INFO_TYPE: Final = "headgate/refused"
MEDIA_TYPE: Final = "application/cbor"

JOURNAL_ID_BYTES: Final = 16
MAX_NOTICE_TEXT_BYTES: Final = 512
MAX_NUMBER: Final = 2**63 - 1
_BOUNDS: Final = CborBounds(max_bytes=4096, max_items=32, max_depth=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNotice:
    """Tells subscribers and the lake of messages that were lost before anyone else had them."""

    journal: bytes
    loss: Loss
    archived: bool = False  # an archive has them all the same: they are missing to subscribers only

    def __post_init__(self) -> None:
        _check_within("journal bytes", len(self.journal), JOURNAL_ID_BYTES, JOURNAL_ID_BYTES)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({"journal": self.journal, "loss": self.loss.to_cbor(), "archived": self.archived})

    @classmethod
    def from_bytes(cls, data: bytes) -> "GapNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("gap notice"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), "journal", "loss", "archived")
            return cls(
                journal=field(found["journal"], bytes),
                loss=Loss.from_cbor(found["loss"]),
                archived=field(found["archived"], bool),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedNotice:
    """Readings that no message can hold, and that are stored nowhere."""

    sensor: str
    quantity: str
    count: int
    reason: str

    def __post_init__(self) -> None:
        for name in ("sensor", "quantity", "reason"):
            _check_within(f"{name} bytes", len(getattr(self, name).encode()), 0, MAX_NOTICE_TEXT_BYTES)
        _check_within("count", self.count, 1, MAX_NUMBER)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {"sensor": self.sensor, "quantity": self.quantity, "count": self.count, "reason": self.reason}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "RefusedNotice":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("notice of refused readings"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), "sensor", "quantity", "count", "reason")
            return cls(
                sensor=field(found["sensor"], str),
                quantity=field(found["quantity"], str),
                count=field(found["count"], int),
                reason=field(found["reason"], str),
            )


def _check_within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not within {low}..{high}")
