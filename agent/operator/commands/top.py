"""`headgate top`: shows the state of the agent, live, in a terminal."""

import argparse
import contextlib
import curses
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from agent.config.configuration import Config
from agent.errors import ConfigError, ExitCode
from agent.operator.arguments import add_config_argument, load_named_config
from agent.operator.commands.status import Seen, explained_status_fields, last_seen
from agent.operator.device_log import describe_log
from agent.operator.readings import printable
from agent.operator.terminal import duration_text
from agent.version import VERSION

DESCRIPTION = (
    "Show journal, links, sensors and events of the agent, live. It reads the status file of the agent, so it"
    " works with the status page on or off. Keys: arrows scroll, q quits."
)
REFRESH_MS: Final = 1000
ESCAPE: Final = 27
SCROLL: Final = {
    curses.KEY_DOWN: 1, ord("j"): 1, curses.KEY_NPAGE: 10, ord(" "): 10,
    curses.KEY_UP: -1, ord("k"): -1, curses.KEY_PPAGE: -10,
}  # fmt: skip
MAX_CURVES: Final = 512
CURVE_POINTS: Final = 24
BARS: Final = "▁▂▃▄▅▆▇█"
GAUGE_CELLS: Final = 20
NAME_CELLS: Final = 16


class Style(Enum):
    """How a line is drawn; `_attributes` maps it to the terminal's colours."""

    PLAIN = "plain"
    TITLE = "title"
    QUIET = "quiet"
    ATTENTION = "attention"
    BAD = "bad"


class Line(NamedTuple):
    text: str
    style: Style = Style.PLAIN


class Curves:
    """The recent values of each sensor, drawn as a row of bars."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], deque[float]] = {}
        self._written_at_ms = 0

    def note(self, status: dict[str, Any]) -> None:
        """Add the values of a status; one that was added before is ignored."""
        if status["written_at_ms"] == self._written_at_ms:
            return
        self._written_at_ms = status["written_at_ms"]
        for device, each in status["devices"].items():
            for sensor in each["sensors"]:
                if isinstance(sensor["value"], int | float):
                    self._append((device, sensor["sensor"], sensor["quantity"]), sensor["value"])

    def bars(self, device: str, sensor: str, quantity: str) -> str:
        values = self._values.get((device, sensor, quantity), ())
        low, high = min(values, default=0), max(values, default=0)
        scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
        return "".join(BARS[round((value - low) * scale)] for value in values)

    def _append(self, name: tuple[str, str, str], value: float) -> None:
        if name not in self._values and len(self._values) >= MAX_CURVES:
            return
        self._values.setdefault(name, deque(maxlen=CURVE_POINTS)).append(value)


def compose(seen: Seen, curves: Curves) -> list[Line]:
    """The lines of the whole screen, from top to bottom; `cut` selects those that fit."""
    status = seen.status
    return [
        _head(seen),
        *_journal(status),
        Line(""),
        Line(
            f"{'LINK, readings':<{NAME_CELLS}} {'STATE':<6} {'PENDING':>9} {'OLDEST':>9} {'ACKNOWLEDGED':>13}"
            f" {'IN MESSAGES':>12}",
            Style.QUIET,
        ),
        *(_link(name, link, status["journal"]) for name, link in status["links"].items()),
        *_archives(status["archives"], status["written_at_ms"]),
        Line(""),
        *_devices(status["devices"], curves),
        Line(""),
        Line("LAST EVENTS", Style.QUIET),
        *(_event(event) for event in reversed(status["events"])),
    ]


def _head(seen: Seen) -> Line:
    status = seen.status
    state = "running" if seen.is_making_progress else "STALLED" if seen.is_alive else "NOT RUNNING"
    ran = _span((status["written_at_ms"] - status["started_at_ms"]) / 1000)
    since = f"up for {ran}" if seen.is_alive else f"it ran for {ran}"
    seen_at = f"last status {_span(seen.age_s)} ago"
    text = f"{status['device']['name']}  {status['device']['address']}  {state}, {since}, {seen_at}"
    return Line(text, Style.TITLE if seen.is_making_progress else Style.BAD)


def _journal(status: dict[str, Any]) -> Iterator[Line]:
    journal, clock = status["journal"], status["clock"]
    used = 1 - journal["free_bytes"] / max(1, journal["max_bytes"])
    cells = round(max(0.0, min(1.0, used)) * GAUGE_CELLS)
    gauge = "█" * cells + "░" * (GAUGE_CELLS - cells)
    yield Line(
        f"journal {gauge} {used:.0%} of {journal['max_bytes'] / 1e6:.0f} MB, full in {_span(journal['full_in_s'])},"
        f" card lasts {_span(journal['card_life_s'])}",
        Style.ATTENTION if used > 0.7 else Style.PLAIN,
    )
    lost = journal["shed_readings"] + journal["damaged_readings"]
    synchronised = "synchronised" if clock["is_synchronised"] else "NOT SYNCHRONISED"
    yield Line(
        f"readings {status['readings']} in {status['messages']} messages, {lost} lost, clock {synchronised}",
        Style.ATTENTION if lost else Style.PLAIN,
    )
    if problem := status["storage_problem"]:
        yield Line(f"cannot write the journal: {printable(problem)}", Style.BAD)


def _link(name: str, link: dict[str, Any], journal: dict[str, Any]) -> Line:
    pending, oldest = journal["pending"].get(name, 0), _span(journal["oldest_pending_s"].get(name))
    state = "up" if link["is_up"] else "DOWN"
    why = "" if link["is_up"] else f"  {printable(link['problem'])}"
    acknowledged = f"{link['readings_acknowledged']:>13} {link['messages_acknowledged']:>12}"
    text = f"{name:<{NAME_CELLS}} {state:<6} {pending:>9} {oldest:>9} {acknowledged}{why}"
    return Line(text, Style.PLAIN if link["is_up"] else Style.ATTENTION)


def _archives(archives: dict[str, Any] | None, now_ms: int) -> Iterator[Line]:
    if archives is not None:
        problem = archives["problem"] or archives["ship_problem"]
        why = f"  {printable(problem)}" if problem else ""
        text = f"archives: {archives['pending']} without a receipt, {archives['shipped']} with one{why}"
        yield Line(text, Style.ATTENTION if problem else Style.PLAIN)
        if log := archives.get("log"):
            why = f"  {printable(log['problem'])}" if log["problem"] else ""
            yield Line(f"device log {describe_log(log, now_ms)}{why}", Style.BAD if why else Style.PLAIN)


def _devices(devices: dict[str, Any], curves: Curves) -> Iterator[Line]:
    for name, device in devices.items():
        is_up = device["state"] == "up"
        why = f"  {printable(device['reason'])}" if device["reason"] else ""
        style = Style.QUIET if is_up else Style.BAD if device["state"] == "down" else Style.ATTENTION
        state = device["state"] if is_up else device["state"].upper()
        yield Line(f"{name}: {state}, {device['readings']} readings{why}", style)
        if rejected := device.get("rejected", {"total": 0})["total"]:
            yield Line(f"  {rejected} inputs could not be parsed: headgate rejected {printable(name)}", Style.ATTENTION)
        for each in device["sensors"]:
            bars = curves.bars(name, each["sensor"], each["quantity"])
            what = each["quantity"] if each["sensor"] == name else f"{each['sensor']} {each['quantity']}"
            value = f"{_shown(each['value'])} {each['unit']}".rstrip()
            yield Line(f"  {printable(what):<28.28} {printable(value):>18.18}  {bars}")


def _shown(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _event(event: dict[str, Any]) -> Line:
    at = time.strftime("%H:%M:%S", time.localtime(event["at_ms"] / 1000))
    style = {"WARNING": Style.ATTENTION, "ERROR": Style.BAD, "CRITICAL": Style.BAD}.get(event["level"], Style.PLAIN)
    again = f" ({event['times']} times)" if event["times"] > 1 else ""
    return Line(f"{at}  {printable(event['text'])}{again}", style)


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)


def cut(lines: Sequence[Line], offset: int, width: int, height: int) -> list[Line]:
    """The lines that fit the screen, from the line at `offset` on."""
    return [Line(line.text[:width], line.style) for line in lines[offset : offset + height]]


COLOURS: Final = {
    Style.ATTENTION: curses.COLOR_YELLOW,
    Style.BAD: curses.COLOR_RED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--once", action="store_true", help="print once and exit (default without a terminal)")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    if arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        seen = _last_seen(config)
        with explained_status_fields(config):
            print("\n".join(line.text for line in compose(seen, Curves())))
            return ExitCode.OK if seen.is_making_progress else ExitCode.NO
    try:
        curses.wrapper(_watch, config)
    except curses.error as problem:
        if not sys.stdout.isatty():  # the terminal was closed, so it cannot be restored
            return ExitCode.OK
        raise ConfigError(f"this terminal is not supported ({problem}); use --once") from None
    return ExitCode.OK


def _last_seen(config: Config) -> Seen:
    """Raises: ConfigError, OSError."""
    seen = last_seen(config)
    if seen.status.get("headgate") != VERSION:
        raise ConfigError(f"{config.status_file}: written by another version of Headgate; restart the agent")
    return seen


def _watch(screen: curses.window, config: Config) -> None:
    curses.use_default_colors()
    attributes = _attributes()
    screen.timeout(REFRESH_MS)
    with contextlib.suppress(curses.error):  # a terminal that cannot hide its cursor shows it
        curses.curs_set(0)
    curves, offset = Curves(), 0
    while _follow_size():
        lines = _load_lines(config, curves)
        offset = max(0, min(offset, len(lines) - 1))
        _draw(screen, lines, offset, attributes)
        key = screen.getch()
        if key in (ord("q"), ord("Q"), ESCAPE):
            return
        offset += SCROLL.get(key, 0)


def _follow_size() -> bool:
    """Resize the screen if the terminal was resized: the signal SIGWINCH may be missed. False: the terminal is gone."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return False
    if size.lines and size.columns and curses.is_term_resized(size.lines, size.columns):
        curses.resizeterm(size.lines, size.columns)
    return True


def _load_lines(config: Config, curves: Curves) -> list[Line]:
    """The present screen; if there is no status, the reason."""
    try:
        seen = _last_seen(config)
        with explained_status_fields(config):
            curves.note(seen.status)
            return compose(seen, curves)
    except (ConfigError, OSError) as problem:
        return [Line(f"no status from the agent: {problem}", Style.BAD)]


def _draw(screen: curses.window, lines: list[Line], offset: int, attributes: dict[Style, int]) -> None:
    height, width = screen.getmaxyx()
    screen.erase()
    for row, line in enumerate(cut(lines, offset, width - 1, height)):
        with contextlib.suppress(curses.error):  # the window became smaller meanwhile; the next refresh follows it
            screen.addstr(row, 0, line.text, attributes[line.style])
    screen.refresh()


def _attributes() -> dict[Style, int]:
    attributes = {Style.PLAIN: curses.A_NORMAL, Style.TITLE: curses.A_BOLD, Style.QUIET: curses.A_DIM}
    for number, (style, colour) in enumerate(COLOURS.items(), 1):
        if curses.has_colors():
            curses.init_pair(number, colour, -1)
            attributes[style] = curses.color_pair(number) | curses.A_BOLD
        else:
            attributes[style] = curses.A_BOLD
    return attributes
