"""Notices of a device about its own data: the content of ordinary signed messages.

A message whose InfoType is `headgate/gap` and whose InfoFormat is `application/cbor` reports messages that were lost
before they were delivered. Its ContentData is a map in deterministic CBOR (`protocol/strict_cbor.py`):

| key | content |
|---|---|
| journal | 16 bytes: the id of the journal that numbered the loss |
| loss | which messages, and why: an array, as in the manifest of an archive (`protocol/losses.py`) |
| archived | true if an archive contains them nevertheless: subscribers miss them, the lake does not |

A message whose InfoType is `headgate/refused` reports readings that no message can hold: too large, or without a
possible stream. It is committed with the readings received with them, before their source is acknowledged.

| key | content |
|---|---|
| sensor, quantity | of the readings; both empty where they are of too many kinds to be named |
| count | number of readings in this commit |
| reason | why the first of them was refused |

A message whose InfoType is `headgate/checkpoint` has a checkpoint of the device log for content
(`protocol/devicelog/checkpoint.py`). Corrections of the clock are in `protocol/clock.py`.
"""

from dataclasses import dataclass
from typing import Final

from protocol.checks import check_length, check_text, check_within
from protocol.losses import Loss
from protocol.strict_cbor import CborBounds, CborMap

GAP_INFO_TYPE: Final = "headgate/gap"
CHECKPOINT_INFO_TYPE: Final = "headgate/checkpoint"
REFUSED_INFO_TYPE: Final = "headgate/refused"
MEDIA_TYPE: Final = "application/cbor"

JOURNAL_ID_BYTES: Final = 16
MAX_NOTICE_TEXT_BYTES: Final = 512
MAX_NUMBER: Final = 2**63 - 1
_BOUNDS: Final = CborBounds(max_bytes=4096, max_items=32, max_depth=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNotice(CborMap):
    """Reports to subscribers and to the lake messages that were lost before they were delivered."""

    WHAT = "gap notice"
    BOUNDS = _BOUNDS

    journal: bytes
    loss: Loss
    archived: bool = False  # an archive contains them: only subscribers miss them

    def __post_init__(self) -> None:
        check_length("journal", self.journal, JOURNAL_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedNotice(CborMap):
    """Reports readings that no message can hold; they are not stored anywhere."""

    WHAT = "notice of refused readings"
    BOUNDS = _BOUNDS

    sensor: str
    quantity: str
    count: int
    reason: str

    def __post_init__(self) -> None:
        for name in ("sensor", "quantity", "reason"):
            check_text(name, getattr(self, name), MAX_NOTICE_TEXT_BYTES)
        check_within("count", self.count, 1, MAX_NUMBER)
