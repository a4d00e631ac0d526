"""An archive's place in the log of its device: in its manifest, and in the claim with which it is uploaded.

    log 7c1f…   number 0 ◄─ previous ─ number 1 ◄─ previous ─ number 2          root: of all archives before this one
    lane 1      [0, 250)               [250, 610)             [610, 900)        each begins where the previous one ends

An archive covers a range of positions in each lane: the readings are in it, or they were lost. Together the ranges of a
log have no gap, from where the log begins to where it ends. An archive that was damaged on the device before it was
shipped never arrives: a later one with `replaces` holds its readings again, and covers its range or a part of it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from protocol.checks import check_length, check_within
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.devicelog.merkle import EMPTY_ROOT, HASH_BYTES
from protocol.losses import MAX_LANE, MAX_POSITION
from protocol.strict_cbor import CborValue, field, fields, invalid_is_corrupt, items

LOG_ID_BYTES = 16
MAX_LANES = 32  # of a device's journal
MAX_REPLACED = 16

_NAMES = ("log", "previous_log", "number", "previous", "root", "replaces", "lanes")


class LaneRange(NamedTuple):
    """The positions of one lane that an archive covers: from `first` up to, but without, `next`."""

    lane: int
    begin: int  # where the log begins in this lane: 0, unless it continues another log
    first: int
    next: int


class Replaced(NamedTuple):
    """An archive that was damaged on the device before it was shipped. Its digest is still a leaf of the log."""

    number: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Valid on construction: raises ValueError."""

    log: bytes  # 16 random bytes
    previous_log: bytes  # the log that this one continues, or empty
    number: int  # of this archive in the log, from 0
    previous: bytes  # SHA-256 of the previous archive as it is shipped; empty for number 0
    root: bytes  # of the log before this archive, which has `number` leaves
    replaces: tuple[Replaced, ...] = ()  # by rising number; usually none
    lanes: tuple[LaneRange, ...]  # by rising lane; a lane that is absent has no position yet

    def __post_init__(self) -> None:
        check_log_ids(self.log, self.previous_log)
        check_within("number", self.number, 0, MAX_LOG_SIZE - 1)
        check_head(self.number, self.root, self.previous)
        check_within("replaced archives", len(self.replaces), 0, MAX_REPLACED)
        numbers = [each.number for each in self.replaces]
        if any(after <= before for before, after in pairwise([-1, *numbers, self.number])):
            raise ValueError(f"archive {self.number} cannot replace {numbers}")
        for replaced in self.replaces:
            check_length("replaced archive's digest", replaced.sha256, HASH_BYTES)
        check_lanes([each.lane for each in self.lanes])
        for each in self.lanes:
            _check_range(each)

    def range_of(self, lane: int) -> LaneRange:
        """What it covers in this lane; an empty range at position 0 if the lane is absent."""
        return next((each for each in self.lanes if each.lane == lane), LaneRange(lane, 0, 0, 0))

    def to_cbor(self) -> CborValue:
        return {
            "log": self.log,
            "previous_log": self.previous_log,
            "number": self.number,
            "previous": self.previous,
            "root": self.root,
            "replaces": [list(each) for each in self.replaces],
            "lanes": [list(each) for each in self.lanes],
        }

    @classmethod
    def from_cbor(cls, value: CborValue) -> "LogEntry":
        """Raises: Corrupt."""
        with invalid_is_corrupt("log entry"):
            found = fields(value, *_NAMES)
            return cls(
                log=field(found["log"], bytes),
                previous_log=field(found["previous_log"], bytes),
                number=field(found["number"], int),
                previous=field(found["previous"], bytes),
                root=field(found["root"], bytes),
                replaces=tuple(_replaced_from_cbor(each) for each in items(found["replaces"])),
                lanes=tuple(
                    LaneRange(*(field(each, int) for each in items(lane, 4))) for lane in items(found["lanes"])
                ),
            )


def check_log_ids(log: bytes, previous_log: bytes) -> None:
    check_length("log", log, LOG_ID_BYTES)
    if previous_log:
        check_length("previous_log", previous_log, LOG_ID_BYTES)
    if previous_log == log:
        raise ValueError("a log cannot continue itself")


def check_head(size: int, root: bytes, last: bytes) -> None:
    """Root and last archive of a log of this size."""
    check_length("root", root, HASH_BYTES)
    check_length("previous archive's digest", last, HASH_BYTES if size else 0)
    if size == 0 and root != EMPTY_ROOT:
        raise ValueError("the root of an empty log is the SHA-256 of nothing")


def check_lanes(lanes: list[int]) -> None:
    check_within("lanes", len(lanes), 0, MAX_LANES)
    for lane in lanes:
        check_within("lane", lane, 0, MAX_LANE)
    if any(after <= before for before, after in pairwise(lanes)):
        raise ValueError("lanes are not in order")


def _check_range(covered: LaneRange) -> None:
    check_within("begin", covered.begin, 0, covered.first)
    check_within("first", covered.first, covered.begin, covered.next)
    check_within("next", covered.next, covered.first, MAX_POSITION)


def _replaced_from_cbor(value: CborValue) -> Replaced:
    number, sha256 = items(value, 2)
    return Replaced(field(number, int), field(sha256, bytes))
