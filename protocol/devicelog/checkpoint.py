"""A checkpoint: the device's signed statement how long its log is, and how far its journal is archived.

Archives alone cannot show that the last ones are missing; a checkpoint can. It never states more than is durable on the
device, so after any crash the device can still hold to it. Checkpoints of one log are ordered by what they state, never
by clocks.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from protocol import strict_cbor
from protocol.binding import Binding
from protocol.checks import check_length, check_text, check_within
from protocol.devicelog.entry import check_head, check_lanes, check_log_ids
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.devicelog.merkle import HASH_BYTES
from protocol.ed25519 import check_signature
from protocol.errors import Unsupported
from protocol.losses import MAX_POSITION
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, CborValue, field, items

VERSION: Final = 1
BOOT_ID_BYTES: Final = 16
MAX_VERSION_TEXT_BYTES: Final = 64
MAX_CHECKPOINT_BYTES: Final = 4096

_SIGNED_AS: Final = b"headgate checkpoint 1\n"  # no other signature of the same key is valid for a checkpoint
_BOUNDS: Final = CborBounds(max_bytes=MAX_CHECKPOINT_BYTES, max_items=512, max_depth=3)
_NAMES: Final = (
    *("version", "device", "archive_key", "binding", "log", "previous_log", "size", "root", "last", "lanes"),
    *("boot", "made_at_ms", "agent_version", "configuration", "waiting", "waiting_bytes"),
)


class LaneState(NamedTuple):
    """How far a lane is. All but `lost` are positions: the next one, after everything of that kind."""

    lane: int
    begin: int  # where the log begins in this lane
    committed: int  # durable in the journal
    archived: int  # covered by archives of the log
    released: int  # covered by receipts without a hole: the device may have deleted what is before it
    lost: int  # number of readings that archives of the log cover as lost


class Relation(Enum):
    """Of a checkpoint to another one of the same log."""

    OLDER = "older"
    EQUAL = "equal"
    NEWER = "newer"
    FORKED = "forked"  # no single log leads to both: a copied card, a restored backup or an attack


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatement:
    """What a checkpoint states, before it is signed. Valid on construction: raises ValueError."""

    binding: Binding
    log: bytes
    previous_log: bytes  # the log that this one continues, or empty
    size: int  # archives in the log
    root: bytes
    last: bytes  # SHA-256 of the last archive, or empty
    lanes: tuple[LaneState, ...]  # by rising lane
    boot: bytes  # id of the boot of the device
    made_at_ms: int  # by the device's clock
    agent_version: str
    configuration: bytes  # SHA-256 of the configuration in use
    waiting: int  # archives without a receipt
    waiting_bytes: int

    def __post_init__(self) -> None:
        check_log_ids(self.log, self.previous_log)
        check_within("size", self.size, 0, MAX_LOG_SIZE)
        check_head(self.size, self.root, self.last)
        check_lanes([each.lane for each in self.lanes])
        for each in self.lanes:
            _check_lane(each)
        check_length("boot", self.boot, BOOT_ID_BYTES)
        check_within("made_at_ms", self.made_at_ms, 0, MAX_TIMESTAMP_MS)
        check_text("agent_version", self.agent_version, MAX_VERSION_TEXT_BYTES)
        check_length("configuration", self.configuration, HASH_BYTES)
        check_within("waiting", self.waiting, 0, MAX_LOG_SIZE)
        check_within("waiting_bytes", self.waiting_bytes, 0, MAX_POSITION)

    @property
    def device(self) -> bytes:
        return self.binding.address

    @property
    def produced(self) -> int:
        """Readings that the log has: committed, whether archived or lost since."""
        return sum(each.committed - each.begin for each in self.lanes)

    def body(self) -> dict[str, CborValue]:
        return {
            **self.binding.to_entries(),
            "version": VERSION,
            "log": self.log,
            "previous_log": self.previous_log,
            "size": self.size,
            "root": self.root,
            "last": self.last,
            "lanes": [list(each) for each in self.lanes],
            "boot": self.boot,
            "made_at_ms": self.made_at_ms,
            "agent_version": self.agent_version,
            "configuration": self.configuration,
            "waiting": self.waiting,
            "waiting_bytes": self.waiting_bytes,
        }

    def bytes_to_sign(self) -> bytes:
        return _SIGNED_AS + strict_cbor.encode(self.body())


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(CheckpointStatement):
    """“My log is this long.” The signature is checked on construction."""

    signature: bytes  # by the archive key of the binding

    def __post_init__(self) -> None:
        CheckpointStatement.__post_init__(self)
        check_signature("checkpoint", self.binding.archive_key, self.bytes_to_sign(), self.signature)

    def relation_to(self, other: "Checkpoint") -> Relation:
        """Raises: ValueError if the other one is of another log or device."""
        if (self.device, self.log) != (other.device, other.log):
            raise ValueError("checkpoints of different logs cannot be compared")
        steps = [self.size - other.size, *_steps(self.lanes, other.lanes)]
        if min(steps) < 0 < max(steps) or (self.size == other.size and self.root != other.root):
            return Relation.FORKED
        step = sum(steps) or _released(self) - _released(other)
        return Relation.NEWER if step > 0 else Relation.OLDER if step < 0 else Relation.EQUAL

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({**self.body(), "signature": self.signature})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Checkpoint":
        """Raises: WireError, also when a signature is wrong."""
        with strict_cbor.invalid_is_corrupt("checkpoint"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), *_NAMES, "signature")
            if found["version"] != VERSION:
                raise Unsupported(f"version {found['version']!r}, this reader knows {VERSION}")
            return cls(
                binding=Binding.from_entries(found),
                log=field(found["log"], bytes),
                previous_log=field(found["previous_log"], bytes),
                size=field(found["size"], int),
                root=field(found["root"], bytes),
                last=field(found["last"], bytes),
                lanes=tuple(_lane_from_cbor(each) for each in items(found["lanes"])),
                boot=field(found["boot"], bytes),
                made_at_ms=field(found["made_at_ms"], int),
                agent_version=field(found["agent_version"], str),
                configuration=field(found["configuration"], bytes),
                waiting=field(found["waiting"], int),
                waiting_bytes=field(found["waiting_bytes"], int),
                signature=field(found["signature"], bytes),
            )


def sign_checkpoint(statement: CheckpointStatement, sign: Callable[[bytes], bytes]) -> Checkpoint:
    """Make a checkpoint. `sign` returns the Ed25519 signature of a message by the binding's archive key."""
    stated = {each.name: getattr(statement, each.name) for each in dataclasses.fields(CheckpointStatement)}
    return Checkpoint(**stated, signature=sign(statement.bytes_to_sign()))


def _check_lane(state: LaneState) -> None:
    check_within("begin", state.begin, 0, state.released)
    check_within("released", state.released, state.begin, state.archived)
    check_within("archived", state.archived, state.released, state.committed)
    check_within("committed", state.committed, state.archived, MAX_POSITION)
    check_within("lost", state.lost, 0, state.committed)


def _lane_from_cbor(value: CborValue) -> LaneState:
    return LaneState(*(field(each, int) for each in items(value, 6)))


def _steps(lanes: tuple[LaneState, ...], others: tuple[LaneState, ...]) -> list[int]:
    """How much further each lane is committed than in the other checkpoint, where it begins at 0 if it is absent."""
    own, other = ({each.lane: each.committed for each in each_side} for each_side in (lanes, others))
    return [own.get(lane, 0) - other.get(lane, 0) for lane in own.keys() | other.keys()]


def _released(checkpoint: Checkpoint) -> int:
    return sum(each.released for each in checkpoint.lanes)
