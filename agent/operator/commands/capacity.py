"""`headgate capacity`: how long an outage the journal can buffer, and how large it must be.

When the journal is full, the least important lane loses its oldest records first. So lane k begins to lose records when
the lanes up to k, which are as important or more so, no longer fit by themselves:

    (bytes they hold now) + (bytes they get per second) × t  >  room

Sizes and rates are measured in a journal (`measure_lanes`) or assumed (`plan_lane`).
"""

import argparse
import dataclasses
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.config.configuration import JournalConfig, find_config
from agent.errors import ConfigError, ExitCode
from agent.journal.inspection import View, inspect_journal, open_read_only
from agent.journal.lane import Lane
from agent.journal.layout import HEAD_BYTES, MAX_OVERHEAD_BYTES, PAGE_BYTES
from agent.journal.settings import MIB, JournalSettings
from agent.operator.arguments import add_config_argument, load_named_config, positive
from agent.operator.terminal import bytes_text, duration_text

DESCRIPTION = (
    "Forecast how long each lane of the journal can buffer while nothing is published, and how large the"
    " journal must be for an outage, at the rate of readings found in the journal or at --rate. Exit code 1: the"
    " journal is too small."
)
UNITS_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
DEFAULT_OFFLINE = "6h"
DEFAULT_READING_BYTES = 700  # a signed message around one reading
MEASURED_SEGMENTS: Final = 2  # rates are measured in the last two
PLANNED_LANE: Final = 4  # the default priority of a rule
STATE_PAGES: Final = 2  # written each time positions are saved


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLoad:
    """The content and the input of one lane. Bytes are counted on the medium, in whole pages."""

    lane: int
    live_bytes: int
    readings_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The forecast for a journal while nothing is published."""

    holds_s: dict[int, float | None]  # by lane: time to its first loss; None: never, because it gets no readings
    usable_bytes: int  # for records, when it is empty


def measure_lanes(view: View) -> list[LaneLoad]:
    """Measure size and rate of each lane in the journal, up to its last commit."""
    lanes = [lane for lane in view.lanes.values() if lane.segments and lane.first_position < lane.next_position]
    until_ms = max((view.reader(lane).read(lane.next_position - 1).written_at_ms for lane in lanes), default=0)
    return [_measure(view, lane, until_ms) for lane in lanes]


def _measure(view: View, lane: Lane, until_ms: int) -> LaneLoad:
    """Measure the lane from the end of the first commit in its recent segments on."""
    recent = lane.segments[-MEASURED_SEGMENTS:]
    first_position = recent[0].first_position
    began_ms, later_position = _end_of_first_commit(view, lane, first_position)
    passed_s = (until_ms - began_ms) / 1000
    readings_per_s = (lane.next_position - later_position) / passed_s if passed_s >= 1 else 0.0
    recent_bytes = lane.used_bytes(view.pages) - PAGE_BYTES * sum(
        view.pages.get(segment.file, 0) for segment in lane.segments[:-MEASURED_SEGMENTS]
    )
    return LaneLoad(
        lane=lane.number,
        live_bytes=lane.used_bytes(view.pages),
        readings_per_s=readings_per_s,
        bytes_per_s=readings_per_s * recent_bytes / (lane.next_position - first_position),
    )


def _end_of_first_commit(view: View, lane: Lane, position: int) -> tuple[int, int]:
    """The time of the commit that begins at `position`, and the end of it; a commit may have several blocks."""
    began_ms = None
    for chunk in view.chunks(lane, position):
        if began_ms is None:
            began_ms = chunk.written_at_ms
        elif chunk.written_at_ms != began_ms:
            break
        position = chunk.end_position
    return began_ms or 0, position


def plan_lane(readings_per_s: float, payload_bytes: int, settings: JournalSettings) -> LaneLoad:
    """The load of one lane at this rate, with the commits of the settings and without compression.

    Each reading counts as a record of its own, which is the most that it can take: packs take less.
    """
    interval_s = settings.commit_interval_ms / 1000
    commits_per_s = readings_per_s if interval_s <= 0 else min(readings_per_s, 1 / interval_s)
    commits_per_s = max(commits_per_s, readings_per_s / settings.commit_records)
    records = readings_per_s / commits_per_s if commits_per_s else 0.0
    pages = math.ceil((2 * HEAD_BYTES + records * (payload_bytes + MAX_OVERHEAD_BYTES)) / PAGE_BYTES)
    return LaneLoad(
        lane=PLANNED_LANE,
        live_bytes=0,
        readings_per_s=readings_per_s,
        bytes_per_s=commits_per_s * pages * PAGE_BYTES,
    )


def forecast(lanes: Sequence[LaneLoad], settings: JournalSettings) -> Outage:
    usable_bytes = settings.free_bytes(len(lanes), 0)
    holds_s: dict[int, float | None] = {}
    held_bytes, bytes_per_s = 0, 0.0
    for load in sorted(lanes, key=lambda load: load.lane):
        held_bytes, bytes_per_s = held_bytes + load.live_bytes, bytes_per_s + load.bytes_per_s
        holds_s[load.lane] = max(0, usable_bytes - held_bytes) / bytes_per_s if bytes_per_s > 0 else None
    if settings.when_full == "stop_reading" and holds_s:  # then all lanes stop together
        holds_s = dict.fromkeys(holds_s, holds_s[max(holds_s)])
    return Outage(holds_s=holds_s, usable_bytes=usable_bytes)


def needed_megabytes(lanes: Sequence[LaneLoad], offline_s: float, settings: JournalSettings) -> int:
    """The `max_megabytes` with which an empty journal buffers all lanes for `offline_s`."""
    required_bytes = sum(load.bytes_per_s for load in lanes) * offline_s
    segments = math.ceil((required_bytes + settings.unusable_bytes(len(lanes))) / settings.segment_bytes)
    state_bytes = 64 * 1024 + PAGE_BYTES * (2 + segments // 32)  # an upper bound
    return math.ceil((segments * settings.segment_bytes + 2 * state_bytes) / MIB)


def card_life_s(lanes: Sequence[LaneLoad], settings: JournalSettings, written_bytes: int = 0) -> float | None:
    """Time until the card is worn out; None if its endurance is unknown, or nothing is written."""
    if settings.card_endurance_bytes is None or not lanes:
        return None
    interval_s = max(1.0, settings.positions_interval_ms / 1000)
    bytes_per_s = sum(load.bytes_per_s for load in lanes) + STATE_PAGES * PAGE_BYTES / interval_s
    return max(0, settings.card_endurance_bytes - written_bytes) / bytes_per_s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--journal", type=Path, metavar="DIR", help="journal directory (default: the configured one)")
    parser.add_argument(
        "--offline",
        type=span_s,
        default=DEFAULT_OFFLINE,
        metavar="SPAN",
        help="length of the outage: 90m, 6h, 3d (default: 6h)",
    )
    parser.add_argument(
        "--rate",
        type=positive,
        metavar="N",
        help="readings per second to plan with, instead of the rate found in the journal",
    )
    parser.add_argument(
        "--bytes",
        type=int,
        default=DEFAULT_READING_BYTES,
        help="size of one reading with its share of the message in bytes, with --rate (default: %(default)s, for a"
        " reading that is alone in its message; about 450 in a large pack)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def span_s(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(s|min|m|h|d)", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90m, 6h or 3d")
    return float(match[1]) * UNITS_S[match[2]]


def run(arguments: argparse.Namespace) -> int:
    settings, lanes, written_bytes = _plan(arguments) if arguments.rate else _measured(arguments)
    outage = forecast(lanes, settings)
    needed = needed_megabytes(lanes, arguments.offline, settings)
    is_enough = all(held is None or held >= arguments.offline for held in outage.holds_s.values())
    answer = {
        "lanes": [{**dataclasses.asdict(load), "holds_s": outage.holds_s[load.lane]} for load in lanes],
        "usable_bytes": outage.usable_bytes,
        "max_megabytes": settings.max_bytes >> 20,
        "offline_s": arguments.offline,
        "needed_megabytes": needed,
        "is_enough": is_enough,
        "card_life_s": card_life_s(lanes, settings, written_bytes),
    }
    print(json.dumps(answer) if arguments.json else "\n".join(_lines(answer, lanes, outage)))
    return ExitCode.OK if is_enough else ExitCode.NO


def _plan(arguments: argparse.Namespace) -> tuple[JournalSettings, list[LaneLoad], int]:
    """Plan with the settings of the configuration if there is one, else with the defaults."""
    path = arguments.config or find_config(os.environ)
    journal = load_named_config(arguments).journal if arguments.config or path.exists() else JournalConfig()
    settings = journal.settings(("any",))
    return settings, [plan_lane(arguments.rate, arguments.bytes, settings)], 0


def _measured(arguments: argparse.Namespace) -> tuple[JournalSettings, list[LaneLoad], int]:
    """Raises: ConfigError, OSError."""
    if arguments.journal is None:
        config = load_named_config(arguments)
        directory, settings = config.journal_directory, config.journal.settings(config.cursors)
    else:
        directory, settings = arguments.journal, None
    with open_read_only(directory) as disk:
        view = inspect_journal(disk)
        lanes = measure_lanes(view)
    state = view.state
    if settings is None:  # as the journal was last opened
        largest = max((pages for pages in view.pages.values()), default=1024) * 4096
        try:
            settings = JournalSettings(
                max_bytes=state.max_bytes, segment_bytes=largest, card_endurance_bytes=state.card_endurance_bytes
            )
        except ValueError:
            raise ConfigError(f"{directory}: this journal does not record its size limit; give --config") from None
    return settings, lanes, state.totals.written_bytes


def _lines(answer: dict[str, Any], lanes: list[LaneLoad], outage: Outage) -> Iterator[str]:
    for load in lanes:
        rates = f"{load.readings_per_s:.4g} readings/s, {load.bytes_per_s / 1000:.4g} kB/s on the medium"
        held = outage.holds_s[load.lane]
        yield f"lane {load.lane:<8}{rates}; holds {'(no readings)' if held is None else duration_text(held)}"
    if not lanes:
        yield "the journal is empty; give --rate"
    verdict = "enough" if answer["is_enough"] else "TOO SMALL"
    yield f"usable       {bytes_text(outage.usable_bytes)} of max_megabytes = {answer['max_megabytes']}"
    wanted = f"max_megabytes = {answer['needed_megabytes']} is needed"
    yield f"outage       {duration_text(answer['offline_s'])}: {verdict}; {wanted}"
    life = answer["card_life_s"]
    yield f"card         {'unknown; set journal.card_endurance_terabytes' if life is None else duration_text(life)}"
