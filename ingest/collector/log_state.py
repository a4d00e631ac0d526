"""The state of one device log at the collector: which numbers it holds, and what contradicts them. Values only.

    number      0 1 2 3 4 5 6 7 8 9 10
    held        ■ ■ ■ ■ ■ ■     ■ ■         ranges [0, 6) and [8, 10)
    frontier    ■ ■ ■ ■ ■ ■                 size and root of what is held without a hole
    received    ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■       these do not wait on the device, by its checkpoints: 6, 7 and 10 are missing

Archives arrive in any order. Numbers that follow each other form one range, so the size of the state depends on the
number of holes, not on the length of the log. The digest of each number is in `ingest.collector.leaves`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice, pairwise
from typing import Final, NamedTuple

from protocol import strict_cbor
from protocol.checks import check_within
from protocol.devicelog.answer import NumberRange
from protocol.devicelog.entry import MAX_LANES, check_log_ids
from protocol.devicelog.frontier import MAX_LOG_SIZE, Frontier
from protocol.file_envelope import FileEnvelope
from protocol.losses import MAX_POSITION
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborBounds, CborValue, fields, invalid_is_corrupt, items
from protocol.strict_cbor import field as typed

MAX_RANGES: Final = 64
MAX_FORKS: Final = 16
MAX_STATE_BYTES: Final = 64 * 1024

ENVELOPE: Final = FileEnvelope(name="log state", magic=b"HGCLOG", version=1, max_bytes=MAX_STATE_BYTES)
_BOUNDS: Final = CborBounds(max_bytes=MAX_STATE_BYTES, max_items=1024, max_depth=4)
_POSITION: Final = struct.Struct(">BQ")  # lane, position: bytes instead of CBOR, since a device may make many of them
_NAMES: Final = (
    *("log", "previous_log", "first_contact_ms", "frontier", "held", "begins", "replaced", "received"),
    *("forks", "forks_found"),
)

Positions = Mapping[int, int]  # lane → position


class HeldRange(NamedTuple):
    """Numbers that follow each other: from `first` up to, but without, `next`. Where it is not known: empty."""

    first: int
    next: int
    previous: bytes  # SHA-256 of the archive before `first`, as archive `first` states it
    starts: Positions  # where the first archive begins, in each lane
    ends: Positions  # where the last archive ends

    def followed_by(self, later: "HeldRange") -> "HeldRange":
        starts, ends = {**later.starts, **self.starts}, {**self.ends, **later.ends}
        return HeldRange(self.first, later.next, self.previous, starts, ends)


class Subject(StrEnum):
    """What two statements about a log contradict each other in."""

    ARCHIVE = "archive"  # the SHA-256 of the archive with a number
    ROOT = "root"  # the root of the log of a size
    PREVIOUS_LOG = "previous-log"  # the log that it continues
    POSITIONS = "positions"  # two checkpoints of a size, each of which is ahead of the other in some lane


class Contradiction(NamedTuple):
    subject: Subject
    number: int  # of the archive; the size for a root and for positions
    held: bytes  # what the collector knew first; for positions, the SHA-256 of the checkpoint
    other: bytes

    def __str__(self) -> str:
        other, held = self.other.hex() or "none", self.held.hex() or "none"
        return f"{self.subject} {self.number} is {held} here, not {other}"


class Fork(NamedTuple):
    """A contradiction, and when it was found."""

    contradiction: Contradiction
    found_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Valid on construction: raises ValueError."""

    log: bytes
    previous_log: bytes
    first_contact_ms: int
    frontier: Frontier = field(default_factory=Frontier)  # of the numbers from 0 that are held without a hole
    held: tuple[HeldRange, ...] = ()  # by rising number, with holes between them
    begins: Positions = field(default_factory=dict)  # where the log begins, in each lane
    replaced: int = 0  # numbers in `held` whose archive never arrives
    received: int = 0  # numbers below it do not wait on the device, by its checkpoints
    forks: tuple[Fork, ...] = ()  # the first ones
    forks_found: int = 0

    def __post_init__(self) -> None:
        check_log_ids(self.log, self.previous_log)
        check_within("first_contact_ms", self.first_contact_ms, 0, MAX_TIMESTAMP_MS)
        check_within("ranges", len(self.held), 0, MAX_RANGES)
        bounds = [-1, *(number for each in self.held for number in (each.first, each.next)), MAX_LOG_SIZE + 1]
        if any(after <= before for before, after in pairwise(bounds)):
            raise ValueError("ranges of numbers are not in order")
        check_within("numbers without a hole", self.frontier.size, 0, self.contiguous_size)
        check_within("replaced", self.replaced, 0, self.known_size)
        check_within("received", self.received, 0, MAX_LOG_SIZE)
        check_within("forks", len(self.forks), 0, min(MAX_FORKS, self.forks_found))

    @property
    def contiguous_size(self) -> int:
        """How many numbers from 0 are held; the frontier follows."""
        return self.held[0].next if self.held and self.held[0].first == 0 else 0

    @property
    def known_size(self) -> int:
        """The number after the highest one that is held."""
        return self.held[-1].next if self.held else 0

    @property
    def archives(self) -> int:
        return sum(each.next - each.first for each in self.held) - self.replaced

    @property
    def is_forked(self) -> bool:
        return self.forks_found > 0

    def holds(self, number: int) -> bool:
        return any(each.first <= number < each.next for each in self.held)

    def missing(self, size: int | None = None) -> tuple[NumberRange, ...]:
        """The numbers below `size` that are not held; of those that must be somewhere else, if no size is given."""
        size = max(self.known_size, self.received) if size is None else size
        bounds = [0, *(number for each in self.held for number in (each.first, each.next)), size]
        holes = (NumberRange(first, min(after, size)) for first, after in zip(bounds[::2], bounds[1::2], strict=True))
        return tuple(hole for hole in holes if hole.first < hole.next)

    @property
    def missing_readings(self) -> int:
        """Readings in the holes, as far as the archives around them tell."""
        count, reached = 0, dict(self.begins)
        for each in self.held:
            count += sum(max(0, first - reached.get(lane, first)) for lane, first in each.starts.items())
            reached.update(each.ends)
        return count

    def with_range(self, added: HeldRange, *, begins: Positions) -> "LogState":
        """With numbers that were not held. Raises: ValueError if there would be too many ranges."""
        begins = dict(islice({**self.begins, **begins}.items(), MAX_LANES))  # a journal has no more lanes
        added = added._replace(starts=_of_lanes(added.starts, begins), ends=_of_lanes(added.ends, begins))
        merged: list[HeldRange] = []
        for each in sorted((*self.held, added), key=lambda held: held.first):
            if merged and merged[-1].next == each.first:
                merged[-1] = merged[-1].followed_by(each)
            else:
                merged.append(each)
        return replace(self, held=tuple(merged), begins=begins)

    def with_fork(self, contradiction: Contradiction, found_at_ms: int) -> "LogState":
        """A contradiction that is known already changes nothing."""
        if any(each.contradiction == contradiction for each in self.forks):
            return self
        forks = (*self.forks, Fork(contradiction, found_at_ms))[:MAX_FORKS]
        return replace(self, forks=forks, forks_found=self.forks_found + 1)

    def to_bytes(self) -> bytes:
        body: dict[str, CborValue] = {
            "log": self.log,
            "previous_log": self.previous_log,
            "first_contact_ms": self.first_contact_ms,
            "frontier": self.frontier.to_cbor(),
            "held": [_range_to_cbor(each) for each in self.held],
            "begins": _positions_to_bytes(self.begins),
            "replaced": self.replaced,
            "received": self.received,
            "forks": [[*_contradiction_to_cbor(each.contradiction), each.found_at_ms] for each in self.forks],
            "forks_found": self.forks_found,
        }
        return ENVELOPE.wrap(strict_cbor.encode(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogState":
        """Raises: WireError."""
        with invalid_is_corrupt("log state"):
            found = fields(strict_cbor.decode(ENVELOPE.unwrap(data), _BOUNDS), *_NAMES)
            return cls(
                log=typed(found["log"], bytes),
                previous_log=typed(found["previous_log"], bytes),
                first_contact_ms=typed(found["first_contact_ms"], int),
                frontier=Frontier.from_cbor(found["frontier"]),
                held=tuple(_range_from_cbor(each) for each in items(found["held"])),
                begins=_positions_from_bytes(found["begins"]),
                replaced=typed(found["replaced"], int),
                received=typed(found["received"], int),
                forks=tuple(_fork_from_cbor(each) for each in items(found["forks"])),
                forks_found=typed(found["forks_found"], int),
            )


def _of_lanes(positions: Positions, lanes: Positions) -> Positions:
    return {lane: position for lane, position in positions.items() if lane in lanes}


def _range_to_cbor(held: HeldRange) -> CborValue:
    return [held.first, held.next, held.previous, _positions_to_bytes(held.starts), _positions_to_bytes(held.ends)]


def _range_from_cbor(value: CborValue) -> HeldRange:
    first, after, previous, starts, ends = items(value, 5)
    positions = _positions_from_bytes(starts), _positions_from_bytes(ends)
    return HeldRange(typed(first, int), typed(after, int), typed(previous, bytes), *positions)


def _positions_to_bytes(positions: Positions) -> bytes:
    return b"".join(_POSITION.pack(*each) for each in sorted(positions.items()))


def _positions_from_bytes(value: CborValue) -> dict[int, int]:
    data = typed(value, bytes)
    check_within("lanes", len(data) // _POSITION.size, 0, MAX_LANES)
    if len(data) % _POSITION.size:
        raise ValueError(f"positions of {len(data)} bytes")
    positions = dict(_POSITION.iter_unpack(data))
    if _positions_to_bytes(positions) != data:
        raise ValueError("lanes are not in order")
    if any(position > MAX_POSITION for position in positions.values()):
        raise ValueError(f"a position is above {MAX_POSITION}")
    return positions


def _contradiction_to_cbor(contradiction: Contradiction) -> list[CborValue]:
    subject, number, held, other = contradiction
    return [str(subject), number, held, other]


def _fork_from_cbor(value: CborValue) -> Fork:
    subject, number, held, other, found_at_ms = items(value, 5)
    contradiction = Contradiction(
        Subject(typed(subject, str)), typed(number, int), typed(held, bytes), typed(other, bytes)
    )
    return Fork(contradiction, typed(found_at_ms, int))
