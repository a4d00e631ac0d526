"""The end of a device log: what the device needs to know of its log to append the next archive."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from protocol.devicelog.entry import LaneRange, LogEntry, Replaced, check_head, check_lanes, check_log_ids
from protocol.devicelog.frontier import Frontier
from protocol.strict_cbor import CborValue, fields, invalid_is_corrupt, items
from protocol.strict_cbor import field as typed

_NAMES = ("log", "previous_log", "begins", "ends", "frontier", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """Valid on construction: raises ValueError. It is written as a CBOR map with one entry per field."""

    log: bytes
    previous_log: bytes = b""  # the log that this one continues, or empty
    begins: Mapping[int, int] = field(default_factory=dict)  # lane → the first position of the log, where it is not 0
    ends: Mapping[int, int] = field(default_factory=dict)  # lane → the next position, after what archives cover
    frontier: Frontier = field(default_factory=Frontier)
    last: bytes = b""  # SHA-256 of the last archive, or empty

    def __post_init__(self) -> None:
        check_log_ids(self.log, self.previous_log)
        check_head(self.size, self.frontier.root, self.last)
        check_lanes(sorted(self.lanes))
        self.entry({})  # checks the positions

    @property
    def size(self) -> int:
        """The number of archives in the log, which is the number of the next one."""
        return self.frontier.size

    @property
    def lanes(self) -> frozenset[int]:
        return frozenset((*self.begins, *self.ends))

    def begin(self, lane: int) -> int:
        return self.begins.get(lane, 0)

    def end(self, lane: int) -> int:
        return self.ends.get(lane, self.begin(lane))

    def entry(self, up_to: Mapping[int, int]) -> LogEntry:
        """The entry of the next archive, which covers each of these lanes up to, but without, this position.

        Raises: ValueError if a position is before the end of what is covered already.
        """
        ranges = (
            LaneRange(lane, self.begin(lane), self.end(lane), up_to.get(lane, self.end(lane)))
            for lane in sorted({*self.lanes, *up_to})
        )
        return self._entry(tuple(ranges), ())

    def replacement(self, ranges: Mapping[int, tuple[int, int]], replaces: tuple[Replaced, ...]) -> LogEntry:
        """The entry of the next archive, which covers these positions of damaged archives again: lane → first, next."""
        return self._entry(
            tuple(LaneRange(lane, self.begin(lane), *each) for lane, each in sorted(ranges.items())), replaces
        )

    def _entry(self, ranges: tuple[LaneRange, ...], replaces: tuple[Replaced, ...]) -> LogEntry:
        return LogEntry(
            log=self.log,
            previous_log=self.previous_log,
            number=self.size,
            previous=self.last,
            root=self.frontier.root,
            replaces=replaces,
            lanes=ranges,
        )

    def append(self, entry: LogEntry, sha256: bytes) -> "LogHead":
        """The log with the archive of this entry and digest. Raises: ValueError if it is not the next one."""
        expected = (self.log, self.previous_log, self.size, self.last, self.frontier.root)
        if (entry.log, entry.previous_log, entry.number, entry.previous, entry.root) != expected:
            raise ValueError(f"archive {entry.number} does not continue the log of {self.size} archives")
        ends = dict(self.ends)
        for each in entry.lanes:
            if each.first != self.end(each.lane) and not entry.replaces:
                raise ValueError(f"lane {each.lane} of archive {entry.number} does not begin at {self.end(each.lane)}")
            ends[each.lane] = max(each.next, self.end(each.lane))
        return replace(self, ends=ends, frontier=self.frontier.append(sha256), last=sha256)

    def to_cbor(self) -> CborValue:
        return {
            "log": self.log,
            "previous_log": self.previous_log,
            "begins": [list(each) for each in sorted(self.begins.items())],
            "ends": [list(each) for each in sorted(self.ends.items())],
            "frontier": self.frontier.to_cbor(),
            "last": self.last,
        }

    @classmethod
    def from_cbor(cls, value: CborValue) -> "LogHead":
        """Raises: Corrupt."""
        with invalid_is_corrupt("log"):
            found = fields(value, *_NAMES)
            return cls(
                log=typed(found["log"], bytes),
                previous_log=typed(found["previous_log"], bytes),
                begins=_positions_from_cbor(found["begins"]),
                ends=_positions_from_cbor(found["ends"]),
                frontier=Frontier.from_cbor(found["frontier"]),
                last=typed(found["last"], bytes),
            )


def _positions_from_cbor(value: CborValue) -> dict[int, int]:
    pairs = [items(each, 2) for each in items(value)]
    check_lanes([typed(lane, int) for lane, _ in pairs])
    return {typed(lane, int): typed(position, int) for lane, position in pairs}
