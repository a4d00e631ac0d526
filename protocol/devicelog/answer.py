"""The collector's signed answer to a checkpoint: how much of the log it holds, and its time.

The device compares: if the collector holds more of the log than the device itself has, the disk of the device is an old
copy, and it begins a new log instead of using positions a second time.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, pairwise
from typing import Final, NamedTuple

from protocol import strict_cbor
from protocol.checks import check_length, check_within
from protocol.devicelog.entry import LOG_ID_BYTES
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.devicelog.merkle import EMPTY_ROOT, HASH_BYTES
from protocol.ed25519 import KEY_BYTES, check_signature
from protocol.errors import Corrupt, Unsupported
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, CborValue, field, items

VERSION: Final = 1
MAX_MISSING_RANGES: Final = 64
MAX_ANSWER_BYTES: Final = 4096

_SIGNED_AS: Final = b"headgate heartbeat answer 1\n"  # no other signature of the same key is valid for an answer
_BOUNDS: Final = CborBounds(max_bytes=MAX_ANSWER_BYTES, max_items=1024, max_depth=8)
_NAMES: Final = (
    *("version", "checkpoint", "now_ms", "log", "held_size", "held_root", "missing", "status"),
    *("extensions", "collector_key"),
)


class LogStatus(StrEnum):
    """What the collector thinks of the log after this checkpoint."""

    OK = "ok"
    BEHIND = "behind"  # the collector holds more of the log than the checkpoint states
    FORKED = "forked"  # the log does not lead to everything that the collector knows of it


class NumberRange(NamedTuple):
    """Numbers of archives: from `first` up to, but without, `next`."""

    first: int
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStatement:
    """What an answer states, before it is signed. Valid on construction: raises ValueError."""

    checkpoint: bytes  # SHA-256 of the checkpoint that it answers
    now_ms: int  # by the collector's clock
    log: bytes
    held_size: int  # archives that the collector holds without a hole, from number 0
    held_root: bytes  # of those
    missing: tuple[NumberRange, ...]  # the lowest numbers that it lacks and knows to exist, by rising number
    status: LogStatus
    extensions: dict[str, CborValue] = dataclasses.field(default_factory=dict, hash=False)  # for later versions
    collector_key: bytes  # Ed25519, public

    def __post_init__(self) -> None:
        check_length("checkpoint", self.checkpoint, HASH_BYTES)
        check_within("now_ms", self.now_ms, 0, MAX_TIMESTAMP_MS)
        check_length("log", self.log, LOG_ID_BYTES)
        check_within("held_size", self.held_size, 0, MAX_LOG_SIZE)
        check_length("held_root", self.held_root, HASH_BYTES)
        if self.held_size == 0 and self.held_root != EMPTY_ROOT:
            raise ValueError("the root of an empty log is the SHA-256 of nothing")
        check_within("missing ranges", len(self.missing), 0, MAX_MISSING_RANGES)
        bounds = [self.held_size - 1, *chain.from_iterable(self.missing), MAX_LOG_SIZE + 1]
        if any(after <= before for before, after in pairwise(bounds)):
            raise ValueError("missing numbers are not in order, or below held_size")
        check_length("collector_key", self.collector_key, KEY_BYTES)

    def body(self) -> dict[str, CborValue]:
        return {
            "version": VERSION,
            "checkpoint": self.checkpoint,
            "now_ms": self.now_ms,
            "log": self.log,
            "held_size": self.held_size,
            "held_root": self.held_root,
            "missing": [list(each) for each in self.missing],
            "status": str(self.status),
            "extensions": self.extensions,
            "collector_key": self.collector_key,
        }

    def bytes_to_sign(self) -> bytes:
        return _SIGNED_AS + strict_cbor.encode(self.body())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer(AnswerStatement):
    """An answer with a valid signature by the collector key it names. `answers` checks that it is the expected key."""

    signature: bytes

    def __post_init__(self) -> None:
        AnswerStatement.__post_init__(self)
        check_signature("answer", self.collector_key, self.bytes_to_sign(), self.signature)

    def answers(self, *, checkpoint: bytes, log: bytes, collector_key: bytes) -> bool:
        """Whether this collector answers the checkpoint with this SHA-256."""
        return (self.checkpoint, self.log, self.collector_key) == (checkpoint, log, collector_key)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({**self.body(), "signature": self.signature})

    @classmethod
    def from_bytes(cls, data: bytes) -> "HeartbeatAnswer":
        """Raises: WireError, also when the signature is wrong."""
        with strict_cbor.invalid_is_corrupt("answer"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), *_NAMES, "signature")
            if found["version"] != VERSION:
                raise Unsupported(f"version {found['version']!r}, this reader knows {VERSION}")
            return cls(
                checkpoint=field(found["checkpoint"], bytes),
                now_ms=field(found["now_ms"], int),
                log=field(found["log"], bytes),
                held_size=field(found["held_size"], int),
                held_root=field(found["held_root"], bytes),
                missing=tuple(_range_from_cbor(each) for each in items(found["missing"])),
                status=LogStatus(field(found["status"], str)),
                extensions=_extensions(found["extensions"]),
                collector_key=field(found["collector_key"], bytes),
                signature=field(found["signature"], bytes),
            )


def sign_answer(statement: AnswerStatement, sign: Callable[[bytes], bytes]) -> HeartbeatAnswer:
    """Make an answer. `sign` returns the Ed25519 signature of a message by the collector's key."""
    stated = {each.name: getattr(statement, each.name) for each in dataclasses.fields(AnswerStatement)}
    return HeartbeatAnswer(**stated, signature=sign(statement.bytes_to_sign()))


def _range_from_cbor(value: CborValue) -> NumberRange:
    first, after = items(value, 2)
    return NumberRange(field(first, int), field(after, int))


def _extensions(value: CborValue) -> dict[str, CborValue]:
    if not isinstance(value, dict):
        raise Corrupt("extensions: a CBOR map is expected")
    return value
