"""How long the journal holds while nothing is published, lane by lane, and how large it must be for an outage.

When it is full, the least important lane loses its oldest first. So lane k begins to lose when the lanes up to k, which
are as important or more so, no longer fit by themselves:

    (what they hold now) + (what they get in a second) × t  >  room

All of it is arithmetic on sizes and rates, which are measured in a journal (`measure_lanes`) or assumed (`plan_lane`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.journal.inspection import View
from agent.journal.lane import Lane
from agent.journal.layout import HEAD_BYTES, MAX_OVERHEAD_BYTES, PAGE_BYTES
from agent.journal.settings import MIB, JournalSettings

__all__ = ["LaneLoad", "Outage", "card_life_s", "forecast", "measure_lanes", "needed_megabytes", "plan_lane"]

MEASURED_SEGMENTS: Final = 2  # the present is what is in the last two
PLANNED_LANE: Final = 4  # the priority of a rule that names none
STATE_PAGES: Final = 2  # written each time positions are saved


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLoad:
    """One lane: what it holds, and what comes. Bytes are those on the medium, page by page."""

    lane: int
    live_bytes: int
    messages_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """What an outage of any length does to a journal of this size."""

    holds_s: dict[int, float | None]  # by lane: until it loses its first message; None: never, for nothing comes
    room_bytes: int  # for records, when it is empty


def measure_lanes(view: View) -> list[LaneLoad]:
    """From the journal itself. The present ends with the last commit, so that a cold journal tells of its last time."""
    lanes = [lane for lane in view.lanes.values() if lane.segments and lane.first_position < lane.next_position]
    until_ms = max((view.reader(lane).read(lane.next_position - 1).written_at_ms for lane in lanes), default=0)
    return [_measure(view, lane, until_ms) for lane in lanes]


def _measure(view: View, lane: Lane, until_ms: int) -> LaneLoad:
    """What came after the first commit that is looked at, in the time since it."""
    recent = lane.segments[-MEASURED_SEGMENTS:]
    first_position = recent[0].first_position
    began_ms, later_position = _end_of_first_commit(view, lane, first_position)
    passed_s = (until_ms - began_ms) / 1000
    messages_per_s = (lane.next_position - later_position) / passed_s if passed_s >= 1 else 0.0
    recent_bytes = sum(_used_bytes(view, lane, segment.file) for segment in recent)
    return LaneLoad(
        lane=lane.number,
        live_bytes=sum(_used_bytes(view, lane, segment.file) for segment in lane.segments),
        messages_per_s=messages_per_s,
        bytes_per_s=messages_per_s * recent_bytes / (lane.next_position - first_position),
    )


def _end_of_first_commit(view: View, lane: Lane, position: int) -> tuple[int, int]:
    """When the commit was that begins at `position`, and where the next one begins; a large one has several blocks."""
    began_ms = None
    for chunk in view.chunks(lane, position):
        if began_ms is None:
            began_ms = chunk.written_at_ms
        elif chunk.written_at_ms != began_ms:
            break
        position = chunk.end_position
    return began_ms or 0, position


def _used_bytes(view: View, lane: Lane, file: int) -> int:
    is_last = file == lane.segments[-1].file
    pages = lane.write_page if is_last and lane.write_page is not None else view.pages.get(file, 0)
    return pages * PAGE_BYTES


def plan_lane(messages_per_s: float, payload_bytes: int, settings: JournalSettings) -> LaneLoad:
    """What would come, before compression, which takes something off: one lane, committed as the settings say."""
    interval_s = settings.commit_interval_ms / 1000
    commits_per_s = messages_per_s if interval_s <= 0 else min(messages_per_s, 1 / interval_s)
    commits_per_s = max(commits_per_s, messages_per_s / settings.commit_records)
    records = messages_per_s / commits_per_s if commits_per_s else 0.0
    pages = math.ceil((2 * HEAD_BYTES + records * (payload_bytes + MAX_OVERHEAD_BYTES)) / PAGE_BYTES)
    return LaneLoad(
        lane=PLANNED_LANE,
        live_bytes=0,
        messages_per_s=messages_per_s,
        bytes_per_s=commits_per_s * pages * PAGE_BYTES,
    )


def forecast(lanes: Sequence[LaneLoad], settings: JournalSettings) -> Outage:
    room_bytes = max(0, settings.max_segments * settings.segment_bytes - _slack_bytes(len(lanes), settings))
    holds_s: dict[int, float | None] = {}
    held_bytes, bytes_per_s = 0, 0.0
    for load in sorted(lanes, key=lambda load: load.lane):
        held_bytes, bytes_per_s = held_bytes + load.live_bytes, bytes_per_s + load.bytes_per_s
        holds_s[load.lane] = max(0, room_bytes - held_bytes) / bytes_per_s if bytes_per_s > 0 else None
    if settings.when_full == "stop_reading" and holds_s:  # then all stop together
        holds_s = dict.fromkeys(holds_s, holds_s[max(holds_s)])
    return Outage(holds_s=holds_s, room_bytes=room_bytes)


def needed_megabytes(lanes: Sequence[LaneLoad], offline_s: float, settings: JournalSettings) -> int:
    """The `max_megabytes` with which no lane loses anything for so long, beginning with an empty journal."""
    wanted_bytes = sum(load.bytes_per_s for load in lanes) * offline_s
    segments = math.ceil((wanted_bytes + _slack_bytes(len(lanes), settings)) / settings.segment_bytes)
    state_bytes = 64 * 1024 + PAGE_BYTES * (2 + segments // 32)  # a little more than one can take
    return math.ceil((segments * settings.segment_bytes + 2 * state_bytes) / MIB)


def _slack_bytes(lanes: int, settings: JournalSettings) -> int:
    """Each lane has a segment that is not full, and thinning keeps one back."""
    return (max(1, lanes) + bool(settings.thinned_lanes)) * settings.segment_bytes


def card_life_s(lanes: Sequence[LaneLoad], settings: JournalSettings, written_bytes: int = 0) -> float | None:
    """Until the card is worn out; None where its endurance is not known, or nothing is written."""
    if settings.card_endurance_bytes is None or not lanes:
        return None
    interval_s = max(1.0, settings.positions_interval_ms / 1000)
    bytes_per_s = sum(load.bytes_per_s for load in lanes) + STATE_PAGES * PAGE_BYTES / interval_s
    return max(0, settings.card_endurance_bytes - written_bytes) / bytes_per_s
