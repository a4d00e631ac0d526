"""The journal's small state: which segments are live, where the cursors stand, which losses are pending, totals.

It is stored twice, in `state-0` and `state-1`, each overwritten in place in turn, so that saving needs no new room on a
full disk and power loss in the middle leaves the other copy whole. The valid copy with the higher serial number counts.

    offset  size  field
         0     4  magic "HGJS"
         4     4  size of the JSON text
         8     8  serial number
        16     4  CRC-32 of bytes 4 to 16 and the JSON text
        20        JSON text

Saving both copies makes sure that a single damaged byte never brings an older state back; cursor positions alone are
saved once, because an older position only means that something is sent again.

The copy that counts on opening is written once more, in its place and with the same bytes, before the other one is
overwritten: an earlier process may have failed to sync it, and then only the page cache has it. Then the other one is
overwritten with the same state, before anything is committed: it may be torn, and what is missing of it could be the
same in a later state, so that a second loss of power would complete it.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from agent.journal.disk import Disk, is_damage
from agent.journal.layout import PAGE_BYTES
from agent.journal.losses import PendingLoss
from agent.journal.records import MAX_LANES
from protocol.losses import Loss

STATE_NAMES = ("state-0", "state-1")
STATE_VERSION = 3
MAX_STATE_BYTES = 1 << 20
SEGMENT_IDS_AHEAD = (
    16  # reserved by each save, so that rewriting a segment needs none of its own before its first block
)
_ENVELOPE = struct.Struct("<4sIQI")
_MAGIC = b"HGJS"


class Reported(NamedTuple):
    """The losses of a chunk in short form: their count and a checksum of their positions."""

    lost: int
    fingerprint: int

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> "Reported":
        places = sorted((loss.first_position, loss.last_position, loss.count) for loss in losses)
        return cls(sum(loss.count for loss in losses), crc32(repr(places).encode()))


@dataclass(slots=True)
class Segment:
    """One use of one segment file. It covers positions from `first_position` to the next segment's first."""

    file: int
    id: int
    first_position: int
    thinned: int = 0  # how often every second record was dropped
    left_out: int = 0  # positions in it that were lost before its blocks were written, or were passed over
    reported_below: int = 0  # everything below this position is reported as lost, whatever can still be read of it
    reported: dict[int, Reported] = field(default_factory=dict)  # by the end position of a damaged chunk

    def count_unreported(self, end_position: int, losses: Sequence[Loss]) -> int:
        """How many readings that are lost in the chunk up to `end_position` were not reported yet.

        Damage may grow, and a read error may pass: if it is not exactly what was reported, at least one is new.
        """
        if not losses or end_position <= self.reported_below:
            return 0
        now = Reported.of(losses)
        before = sum(self.reported[end].lost for end in self._reported_ends(end_position, losses))
        return 0 if now == self.reported.get(end_position) else max(1, now.lost - before)

    def mark_reported(self, end_position: int, losses: Sequence[Loss]) -> None:
        for end in self._reported_ends(end_position, losses):
            del self.reported[end]
        self.reported[end_position] = Reported.of(losses)

    def _reported_ends(self, end_position: int, losses: Sequence[Loss]) -> list[int]:
        """The reported chunks that are now within this one: a block whose head is damaged becomes a gap."""
        first = min(loss.first_position for loss in losses)
        return [end for end in self.reported if first < end <= end_position]

    def count_reported_below(self, position: int) -> int:
        """How many of the readings below were reported as lost."""
        below = max(0, self.reported_below - self.first_position)
        return below + sum(each.lost for end, each in self.reported.items() if self.reported_below < end <= position)

    def mark_all_reported_below(self, position: int) -> None:
        self.reported_below = position
        self.reported = {end: each for end, each in self.reported.items() if end > position}


@dataclass(slots=True)
class LaneState:
    next_position: int = 0  # what was committed when the state was saved; there may be more by now
    segments: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class Totals:
    """Counts over the life of the journal."""

    records: int = 0
    readings: int = 0
    payload_bytes: int = 0
    written_bytes: int = 0  # whole pages written to the device, state files included
    commits: int = 0
    shed_readings: int = 0
    damaged_readings: int = 0
    torn_tails: int = 0
    lost_states: int = 0  # openings that found both copies of the state damaged
    bytes_per_s: float = 0.0  # this and the next: as of the last save
    commits_per_s: float = 0.0


@dataclass(slots=True)
class State:
    journal_id: int
    next_segment_id: int = 1  # of the next process: no block on the medium has this id or a higher one
    lanes: dict[int, LaneState] = field(default_factory=dict)
    cursors: dict[str, dict[int, int]] = field(
        default_factory=dict
    )  # name → lane → first position not yet acknowledged
    losses: tuple[PendingLoss, ...] = ()
    reported_losses: tuple[int, ...] = ()  # the numbers of those that a reader may have seen
    next_loss: int = 1  # how many there were, and one more
    totals: Totals = field(default_factory=Totals)
    max_bytes: int = 0  # these two are for an inspection, which does not know the settings
    card_endurance_bytes: int | None = None


def encode_state(state: State, serial: int) -> bytes:
    values = {
        "version": STATE_VERSION,
        "journal_id": state.journal_id,
        "next_segment_id": state.next_segment_id,
        "lanes": {str(number): _lane_to_json(lane) for number, lane in state.lanes.items()},
        "cursors": {name: {str(lane): at for lane, at in places.items()} for name, places in state.cursors.items()},
        "losses": [pending.to_json() for pending in state.losses],
        "reported_losses": state.reported_losses,
        "next_loss": state.next_loss,
        "totals": asdict(state.totals),
        "max_bytes": state.max_bytes,
        "card_endurance_bytes": state.card_endurance_bytes,
    }
    return _in_envelope(orjson.dumps(values), serial)


def _in_envelope(text: bytes, serial: int) -> bytes:
    covered = struct.pack("<IQ", len(text), serial)
    return b"".join((_MAGIC, covered, struct.pack("<I", crc32(text, crc32(covered))), text))


def decode_state(data: bytes) -> tuple[int, State] | None:
    """Serial number and state, or None whatever is wrong with the bytes."""
    if len(data) < _ENVELOPE.size or data[:4] != _MAGIC:
        return None
    _, size, serial, checksum = _ENVELOPE.unpack_from(data)
    text = data[_ENVELOPE.size : _ENVELOPE.size + size]
    if len(text) != size or crc32(text, crc32(data[4:16])) != checksum:
        return None
    try:
        return serial, _state_from_json(orjson.loads(text))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _lane_to_json(lane: LaneState) -> dict[str, Any]:
    rows = [
        [
            segment.file,
            segment.id,
            segment.first_position,
            segment.thinned,
            segment.left_out,
            segment.reported_below,
            *_reported_to_json(segment),
        ]
        for segment in lane.segments
    ]
    return {"next_position": lane.next_position, "segments": rows}


def _reported_to_json(segment: Segment) -> Iterable[int]:
    return chain.from_iterable((end_position, *each) for end_position, each in segment.reported.items())


def _segment_from_json(row: list[Any]) -> Segment:
    file, id_, first_position, thinned, left_out, reported_below, *reported = map(_count, row)
    reported_by_end = {
        end: Reported(*rest) for end, *rest in zip(reported[::3], reported[1::3], reported[2::3], strict=True)
    }
    return Segment(file, id_, first_position, thinned, left_out, reported_below, reported_by_end)


def _lane_from_json(values: dict[str, Any]) -> LaneState:
    segments = [_segment_from_json(row) for row in values["segments"]]
    return LaneState(_count(values["next_position"]), sorted(segments, key=lambda segment: segment.first_position))


def _state_from_json(values: dict[str, Any]) -> State:
    if values["version"] != STATE_VERSION:
        raise ValueError(f"state version {values['version']}")
    state = State(
        journal_id=_count(values["journal_id"], limit=2**64),
        next_segment_id=_count(values["next_segment_id"]),
        lanes={_lane_number(number): _lane_from_json(lane) for number, lane in values["lanes"].items()},
        cursors={str(name): _places_from_json(places) for name, places in values["cursors"].items()},
        losses=tuple(PendingLoss.from_json(pending) for pending in values["losses"]),
        reported_losses=tuple(_count(number, limit=2**63) for number in values["reported_losses"]),
        next_loss=_count(values["next_loss"]),
        totals=Totals(**values["totals"]),
        max_bytes=_count(values["max_bytes"]),
        card_endurance_bytes=values["card_endurance_bytes"],
    )
    files = [segment.file for lane in state.lanes.values() for segment in lane.segments]
    if len(set(files)) < len(files):
        raise ValueError("two segments in one file")
    return state


def _places_from_json(places: dict[str, Any]) -> dict[int, int]:
    return {_lane_number(lane): _count(position) for lane, position in places.items()}


def _lane_number(text: str) -> int:
    number = int(text)
    if not 0 <= number < MAX_LANES:
        raise ValueError(f"lane {number}")
    return number


def _count(value: Any, limit: int = 2**62) -> int:
    """Far below the limits of the fields of a block, so that counting on from it is safe."""
    if not isinstance(value, int) or not 0 <= value < limit:
        raise ValueError(f"{value!r} is not a count")
    return value


class Copy(NamedTuple):
    """One of the two files, as it was read."""

    serial: int
    state: State
    name: str
    data: bytes  # whole pages

    @property
    def text(self) -> bytes:
        return self.data[_ENVELOPE.size : _ENVELOPE.size + int(_ENVELOPE.unpack_from(self.data)[1])]


def load_copy(disk: Disk, name: str) -> Copy | None:
    """One copy; None if it is damaged or not there. Raises: OSError if it may be neither."""
    try:
        for size in (PAGE_BYTES, MAX_STATE_BYTES):
            data = disk.read(name, 0, size)
            if (decoded := decode_state(data)) is not None:
                return Copy(*decoded, name, data[: _size_of(data)])
    except OSError as error:
        if not is_damage(error):
            raise
    return None


def _size_of(data: bytes) -> int:
    """The whole pages that a valid copy takes."""
    size = _ENVELOPE.size + int(_ENVELOPE.unpack_from(data)[1])
    return size + -size % PAGE_BYTES


class StateFiles:
    """The two copies on the disk."""

    def __init__(self, disk: Disk, allocated_bytes: int) -> None:
        self._disk = disk
        self._allocated_bytes = allocated_bytes
        self._serial = 0
        self._made: set[str] = set()
        self._doubtful: Copy | None = None  # what was loaded, until this process has put it on the medium

    def load(self) -> State | None:
        """The newest valid copy, or None if there is none."""
        found = [copy for name in STATE_NAMES if (copy := load_copy(self._disk, name)) is not None]
        if not found:
            return None
        self._doubtful = newest = max(found, key=lambda copy: copy.serial)
        self._serial = newest.serial
        return newest.state

    def settle(self) -> None:
        """Put on the medium what was loaded, twice. Raises: OSError."""
        if (loaded := self._doubtful) is not None:
            self._disk.write(loaded.name, 0, loaded.data)
            self._disk.sync(loaded.name)
            self._write(_in_envelope(loaded.text, loaded.serial + 1))
            self._doubtful = None

    def save(self, state: State, copies: int) -> int:
        """Put the state on the medium; give the bytes written. Raises: OSError."""
        self.settle()
        return sum(self._save_copy(state) for _ in range(copies))

    def _save_copy(self, state: State) -> int:
        return self._write(encode_state(state, self._serial + 1))

    def _write(self, data: bytes) -> int:
        """The next copy, which has the next serial number; whole pages, and how many bytes these are."""
        data += bytes(-len(data) % PAGE_BYTES)
        name = STATE_NAMES[(self._serial + 1) % 2]
        self._make(name)
        self._disk.write(name, 0, data)
        self._disk.sync(name)
        self._serial += 1
        return len(data)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        self._disk.create(name, self._allocated_bytes)
        self._disk.sync(name)
        self._disk.sync_names()
        self._made.add(name)
