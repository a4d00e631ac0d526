"""`headgate capacity`: how long the journal holds, and how large it must be for an outage."""

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.capacity import LaneLoad, Outage, card_life_s, forecast, measure_lanes, needed_megabytes, plan_lane
from agent.commands.config_argument import add_config_argument, load_named_config
from agent.config import JournalConfig, find_config
from agent.exit_codes import ExitCode
from agent.journal import JournalSettings
from agent.journal.inspection import look, opened_to_look
from agent.span_texts import bytes_text, duration_text

DESCRIPTION = (
    "How long each lane of the journal holds while nothing is published, and how large the journal must be for an"
    " outage: at the rate found in the journal, or at one that is given. The answer is 1 if it is too small."
)
UNITS_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
DEFAULT_OFFLINE = "6h"
DEFAULT_MESSAGE_BYTES = 700  # a signed message around one reading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument(
        "--journal", type=Path, metavar="DIR", help="look into this journal (default: the configured one)"
    )
    parser.add_argument(
        "--offline", type=span_s, default=DEFAULT_OFFLINE, metavar="SPAN", help="an outage: 90m, 6h, 3d (default: 6h)"
    )
    parser.add_argument("--rate", type=_positive, metavar="N", help="plan with so many messages a second; look nowhere")
    parser.add_argument(
        "--bytes", type=int, default=DEFAULT_MESSAGE_BYTES, help="of one message, for --rate (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")


def span_s(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(s|min|m|h|d)", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time, such as 90m, 6h or 3d")
    return float(match[1]) * UNITS_S[match[2]]


def _positive(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return float(text)


def run(arguments: argparse.Namespace) -> int:
    settings, lanes, written_bytes = _plan(arguments) if arguments.rate else _measured(arguments)
    outage = forecast(lanes, settings)
    needed = needed_megabytes(lanes, arguments.offline, settings)
    is_enough = all(held is None or held >= arguments.offline for held in outage.holds_s.values())
    answer = {
        "lanes": [{**dataclasses.asdict(load), "holds_s": outage.holds_s[load.lane]} for load in lanes],
        "room_bytes": outage.room_bytes,
        "max_megabytes": settings.max_bytes >> 20,
        "offline_s": arguments.offline,
        "needed_megabytes": needed,
        "is_enough": is_enough,
        "card_life_s": card_life_s(lanes, settings, written_bytes),
    }
    print(json.dumps(answer) if arguments.json else "\n".join(_lines(answer, lanes, outage)))
    return ExitCode.OK if is_enough else ExitCode.NO


def _plan(arguments: argparse.Namespace) -> tuple[JournalSettings, list[LaneLoad], int]:
    """With the configuration's settings where there is one, else with the defaults."""
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
    with opened_to_look(directory) as disk:
        view = look(disk)
        lanes = measure_lanes(view)
    state = view.state
    if settings is None:  # as the journal was last opened
        largest = max((pages for pages in view.pages.values()), default=1024) * 4096
        settings = JournalSettings(
            max_bytes=state.max_bytes, segment_bytes=largest, card_endurance_bytes=state.card_endurance_bytes
        )
    return settings, lanes, state.totals.written_bytes


def _lines(answer: dict[str, Any], lanes: list[LaneLoad], outage: Outage) -> Iterator[str]:
    for load in lanes:
        rates = f"{load.messages_per_s:.4g} messages/s, {load.bytes_per_s / 1000:.4g} kB/s on the medium"
        held = outage.holds_s[load.lane]
        yield f"lane {load.lane:<8}{rates}; holds {'as long as nothing comes' if held is None else duration_text(held)}"
    if not lanes:
        yield "nothing is in the journal; plan with --rate"
    verdict = "enough" if answer["is_enough"] else "TOO SMALL"
    yield f"room         {bytes_text(outage.room_bytes)} of max_megabytes = {answer['max_megabytes']}"
    wanted = f"max_megabytes = {answer['needed_megabytes']} is wanted"
    yield f"outage       {duration_text(answer['offline_s'])}: {verdict}; {wanted}"
    life = answer["card_life_s"]
    yield f"card         {'unknown; set journal.card_endurance_terabytes' if life is None else duration_text(life)}"
