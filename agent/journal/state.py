"""The journal's small state: which segments are live, where the cursors stand, which gaps are pending, totals.

It is kept twice, in `state-0` and `state-1`, each overwritten in place in turn, so that saving needs no new room on a
full disk and power loss in the middle leaves the other copy whole. The valid copy with the higher serial number counts.

    offset  size  field
         0     4  magic "HGJS"
         4     4  size of the JSON text
         8     8  serial number
        16     4  CRC-32 of bytes 4 to 16 and the JSON text
        20        JSON text

Saving both copies makes sure that a single damaged byte never brings an older state back; cursor positions alone are
saved once, because an older position only means that something is sent again.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from agent.journal.disk import Disk, is_damage
from agent.journal.gaps import Gap
from agent.journal.layout import PAGE_BYTES
from agent.journal.records import MAX_LANES, Loss

STATE_NAMES = ("state-0", "state-1")
STATE_VERSION = 1
MAX_STATE_BYTES = 1 << 20
_ENVELOPE = struct.Struct("<4sIQI")
_MAGIC = b"HGJS"


class Told(NamedTuple):
    """The losses of a chunk, as small as they can be remembered."""

    lost: int
    fingerprint: int

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> "Told":
        places = sorted((loss.first_position, loss.last_position, loss.count) for loss in losses)
        return cls(sum(loss.count for loss in losses), crc32(repr(places).encode()))


@dataclass(slots=True)
class Segment:
    """One use of one segment file. It covers positions from `first_position` to the next segment's first."""

    file: int
    id: int
    first_position: int
    thinned: int = 0  # how often every second record was dropped
    told_below: int = 0  # everything below this position is told as lost, whatever can still be read of it
    told: dict[int, "Told"] = field(default_factory=dict)  # end position of a damaged chunk → what was told of it

    def untold(self, end_position: int, losses: Sequence[Loss]) -> int:
        """Of how many records that are lost in the chunk up to `end_position` nobody was told.

        It may rot on, and a bad reading may pass: if it is not exactly what was told, at least one is new.
        """
        if not losses or end_position <= self.told_below:
            return 0
        told, now = self.told.get(end_position, Told(0, 0)), Told.of(losses)
        return 0 if now == told else max(1, now.lost - told.lost)

    def tell(self, end_position: int, losses: Sequence[Loss]) -> None:
        self.told[end_position] = Told.of(losses)

    def tell_all_below(self, position: int) -> None:
        self.told_below = position
        self.told = {end: told for end, told in self.told.items() if end > position}


@dataclass(slots=True)
class LaneState:
    next_position: int = 0  # what was committed when the state was saved; there may be more by now
    segments: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class Totals:
    """Counted over the journal's whole life."""

    records: int = 0
    payload_bytes: int = 0
    written_bytes: int = 0  # whole pages handed to the device, state files included
    commits: int = 0
    shed_records: int = 0
    damaged_records: int = 0
    torn_tails: int = 0
    lost_states: int = 0  # openings that found both copies of the state damaged
    bytes_per_s: float = 0.0  # this and the next: as of the last save
    commits_per_s: float = 0.0


@dataclass(slots=True)
class State:
    journal_id: int
    next_segment_id: int = 1
    lanes: dict[int, LaneState] = field(default_factory=dict)
    cursors: dict[str, dict[int, int]] = field(
        default_factory=dict
    )  # name → lane → first position not yet acknowledged
    gaps: tuple[Gap, ...] = ()
    next_gap: int = 1
    totals: Totals = field(default_factory=Totals)
    max_bytes: int = 0  # these two are for who looks from outside and does not know the settings
    card_endurance_bytes: int | None = None


def encode_state(state: State, serial: int) -> bytes:
    values = {
        "version": STATE_VERSION,
        "journal_id": state.journal_id,
        "next_segment_id": state.next_segment_id,
        "lanes": {str(number): _lane_to_json(lane) for number, lane in state.lanes.items()},
        "cursors": {name: {str(lane): at for lane, at in places.items()} for name, places in state.cursors.items()},
        "gaps": [gap.to_json() for gap in state.gaps],
        "next_gap": state.next_gap,
        "totals": asdict(state.totals),
        "max_bytes": state.max_bytes,
        "card_endurance_bytes": state.card_endurance_bytes,
    }
    text = orjson.dumps(values)
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
        [segment.file, segment.id, segment.first_position, segment.thinned, segment.told_below, *_told_to_json(segment)]
        for segment in lane.segments
    ]
    return {"next_position": lane.next_position, "segments": rows}


def _told_to_json(segment: Segment) -> Iterable[int]:
    return chain.from_iterable((end_position, *told) for end_position, told in segment.told.items())


def _segment_from_json(row: list[Any]) -> Segment:
    file, id_, first_position, thinned, told_below, *told = map(_count, row)
    told_by_end = {end: Told(*rest) for end, *rest in zip(told[::3], told[1::3], told[2::3], strict=True)}
    return Segment(file, id_, first_position, thinned, told_below, told_by_end)


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
        gaps=tuple(Gap.from_json(gap) for gap in values["gaps"]),
        next_gap=_count(values["next_gap"]),
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
    """Far from what the fields of a block can hold, so that counting on from it is safe."""
    if not isinstance(value, int) or not 0 <= value < limit:
        raise ValueError(f"{value!r} is not a count")
    return value


def load_copy(disk: Disk, name: str) -> tuple[int, State] | None:
    """One copy, with its serial number; None if it is damaged or not there. Raises: OSError if it may be neither."""
    try:
        beginning = disk.read(name, 0, PAGE_BYTES)
        return decode_state(beginning) or decode_state(disk.read(name, 0, MAX_STATE_BYTES))
    except OSError as error:
        if not is_damage(error):
            raise
        return None


class StateFiles:
    """The two copies on the disk."""

    def __init__(self, disk: Disk, allocated_bytes: int) -> None:
        self._disk = disk
        self._allocated_bytes = allocated_bytes
        self._serial = 0
        self._made: set[str] = set()

    def load(self) -> State | None:
        """The newest valid copy, or None if there is none."""
        found = [copy for name in STATE_NAMES if (copy := load_copy(self._disk, name)) is not None]
        if not found:
            return None
        self._serial, state = max(found, key=lambda copy: copy[0])
        return state

    def save(self, state: State, copies: int) -> int:
        """Put the state on the medium; give the bytes written. Raises: OSError."""
        return sum(self._save_copy(state) for _ in range(copies))

    def _save_copy(self, state: State) -> int:
        serial = self._serial + 1
        name = STATE_NAMES[serial % 2]
        data = encode_state(state, serial)
        data += bytes(-len(data) % PAGE_BYTES)
        self._make(name)
        self._disk.write(name, 0, data)
        self._disk.sync(name)
        self._serial = serial
        return len(data)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        self._disk.create(name, self._allocated_bytes)
        self._disk.sync(name)
        self._disk.sync_names()
        self._made.add(name)
