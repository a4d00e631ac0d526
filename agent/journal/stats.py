"""Statistics of a journal: wear of the card, backlog of its cursors, time until it is full."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.journal.lane import Lane, LaneReader
from agent.journal.state import Totals

RATE_WINDOW_S = 300.0
COUNTS = (
    "records", "readings", "commits", "payload_bytes", "written_bytes", "shed_readings", "damaged_readings",
    "torn_tails", "lost_states",
)  # fmt: skip


class RateMeter:
    """A rate over the last minutes: the average since the start, and later one in which older amounts fade out."""

    def __init__(self, per_s: float = 0.0) -> None:
        """`per_s`: the rate that an earlier process measured."""
        self._per_s = per_s
        self._measured_s = RATE_WINDOW_S if per_s else 0.0
        self._since_ms: int | None = None
        self._amount = 0.0

    def add(self, amount: float) -> None:
        self._amount += amount

    def per_s(self, now_ms: int) -> float:
        """The rate at `now_ms`. A clock that was set back starts a new measurement."""
        if self._since_ms is None or now_ms < self._since_ms:
            self._since_ms = now_ms
        elapsed_s = (now_ms - self._since_ms) / 1000
        if elapsed_s >= 1:
            self._measured_s += elapsed_s
            weight = max(1 - math.exp(-elapsed_s / RATE_WINDOW_S), elapsed_s / self._measured_s)
            self._per_s += weight * (self._amount / elapsed_s - self._per_s)
            self._since_ms, self._amount = now_ms, 0.0
        return self._per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStats:
    depth: int  # readings committed and not yet acknowledged
    oldest_age_s: float | None  # of the first of them since its commit; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    first_position: int
    next_position: int
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStats:
    """A snapshot of a journal. Counts are over its whole life unless named otherwise."""

    lanes: dict[int, LaneStats]
    cursors: dict[str, CursorStats]
    pending_losses: int
    records: int
    readings: int
    commits: int
    payload_bytes: int
    written_bytes: int
    shed_readings: int
    damaged_readings: int
    torn_tails: int  # ends of segments that power loss cut in the middle of a commit
    lost_states: int  # openings that found both copies of the state damaged
    bytes_on_disk: int
    max_bytes: int
    free_bytes: int
    commits_per_s: float
    written_bytes_per_s: float
    card_endurance_bytes: int | None

    @property
    def written_per_payload_byte(self) -> float | None:
        return self.written_bytes / self.payload_bytes if self.payload_bytes else None

    @property
    def full_in_s(self) -> float | None:
        """Until records must be shed if nothing is released from now on; None while nothing is written."""
        return self.free_bytes / self.written_bytes_per_s if self.written_bytes_per_s > 0 else None

    @property
    def card_life_s(self) -> float | None:
        """Until the card is worn out at the present rate; None while nothing is written or its endurance is unknown."""
        if self.card_endurance_bytes is None or self.written_bytes_per_s <= 0:
            return None
        return max(0, self.card_endurance_bytes - self.written_bytes) / self.written_bytes_per_s


def counts_of(totals: Totals) -> dict[str, Any]:
    return {name: getattr(totals, name) for name in COUNTS}


def lane_stats(lane: Lane) -> LaneStats:
    return LaneStats(first_position=lane.first_position, next_position=lane.next_position, segments=len(lane.segments))


def cursor_stats(readers: Mapping[int, LaneReader], places: Mapping[int, int], now_ms: int) -> CursorStats:
    """For a cursor that has acknowledged everything before `places`, by lane."""
    depth, ages_ms = 0, [0]
    for number, reader in readers.items():
        lane = reader.lane
        position = max(places.get(number, 0), lane.first_position)
        if position < lane.next_position:
            depth += lane.next_position - position
            written_at_ms = reader.read(position).written_at_ms
            ages_ms.append(now_ms - written_at_ms if written_at_ms else 0)
    return CursorStats(depth=depth, oldest_age_s=max(ages_ms) / 1000 if depth else None)
