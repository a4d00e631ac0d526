"""The settings of the journal, checked completely on construction."""

from dataclasses import dataclass
from typing import Literal

from agent.journal.layout import MAX_BODY_BYTES, MAX_OVERHEAD_BYTES, PAGE_BYTES
from agent.journal.records import MAX_LANES

MIB = 1 << 20
MIN_SEGMENTS = 4  # one to write, one to read, one to thin into, one to spare
MAX_SEGMENTS = 4096
MIN_SEGMENT_BYTES = 4 * PAGE_BYTES
MAX_SEGMENT_BYTES = 64 * MIB
MAX_CURSORS = 8
_SEGMENTS_PER_PAGE = 64  # of a state file


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    max_bytes: int = 512 * MIB  # strict: segments, spares and state files together never take more
    segment_bytes: int = 4 * MIB
    commit_records: int = 250  # the caller commits when this many records wait …
    commit_interval_ms: int = 1000  # … or this long after the previous commit; both for forecasts
    max_pending_bytes: int = 8 * MIB  # append refuses beyond this; commit first
    compression: Literal["zstd", "none"] = "zstd"
    when_full: Literal["shed", "stop_reading"] = "shed"
    thinned_lanes: frozenset[int] = (
        frozenset()
    )  # lanes that under pressure keep every second record before they lose all
    cursors: tuple[str, ...] = ("publisher",)  # a segment goes when all of these have passed it
    positions_interval_ms: int = (
        10_000  # how often cursors are saved; after a crash, messages since then are sent again
    )
    spare_segments: int = 4  # empty files kept for reuse; more are deleted
    min_free_bytes: int = 0  # of the disk, for others: with less than that, no file is added
    card_endurance_bytes: int | None = None  # what the card may be written in its life, for the forecast

    def __post_init__(self) -> None:
        _check_range("segment_bytes", self.segment_bytes, MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)
        if self.segment_bytes % PAGE_BYTES:
            raise ValueError(f"segment_bytes {self.segment_bytes} is not a multiple of {PAGE_BYTES}")
        if self.max_segments < MIN_SEGMENTS:
            raise ValueError(
                f"max_bytes {self.max_bytes} leaves room for {self.max_segments} segments; {MIN_SEGMENTS} are needed"
            )
        if self.max_segments > MAX_SEGMENTS:
            raise ValueError(f"max_bytes {self.max_bytes} makes more than {MAX_SEGMENTS} segments; raise segment_bytes")
        _check_range("commit_records", self.commit_records, 1, 1 << 14)
        _check_range("commit_interval_ms", self.commit_interval_ms, 0, 3_600_000)
        _check_range("positions_interval_ms", self.positions_interval_ms, 0, 3_600_000)
        _check_range("spare_segments", self.spare_segments, 1, MAX_SEGMENTS)
        _check_range("cursors", len(set(self.cursors)), 1, MAX_CURSORS)
        if not all(0 <= lane < MAX_LANES for lane in self.thinned_lanes):
            raise ValueError(f"thinned_lanes {sorted(self.thinned_lanes)} are not all in 0 to {MAX_LANES - 1}")

    @property
    def state_bytes(self) -> int:
        """The largest size of one of the two state files."""
        return 64 * 1024 + PAGE_BYTES * (1 + self.max_bytes // self.segment_bytes // _SEGMENTS_PER_PAGE)

    @property
    def max_segments(self) -> int:
        room = self.max_bytes - 2 * self.state_bytes
        return room // self.segment_bytes

    def unusable_bytes(self, lanes: int) -> int:
        """Each lane has a segment that is not full when another lane needs one, and thinning reserves one."""
        return (max(1, lanes) + bool(self.thinned_lanes)) * self.segment_bytes

    def free_bytes(self, lanes: int, used_bytes: int) -> int:
        """The bytes that can still be committed before anything is lost, with this many lanes and this much in use."""
        return max(0, self.max_segments * self.segment_bytes - self.unusable_bytes(lanes) - used_bytes)

    @property
    def max_body_bytes(self) -> int:
        return min(MAX_BODY_BYTES, self.segment_bytes // 4)

    @property
    def max_payload_bytes(self) -> int:
        return self.max_body_bytes - MAX_OVERHEAD_BYTES


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not in {low} to {high}")
