"""The screen of `headgate top`, as lines of text: no terminal here, only what would be on it."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from agent.commands.status import Seen
from agent.span_texts import duration_text
from agent.subscription_report import printable

__all__ = ["Curves", "Line", "Mood", "compose", "cut"]

MAX_CURVES: Final = 512
CURVE_POINTS: Final = 24
BARS: Final = "▁▂▃▄▅▆▇█"
GAUGE_CELLS: Final = 20
NAME_CELLS: Final = 16


class Mood(Enum):
    PLAIN = "plain"
    TITLE = "title"
    QUIET = "quiet"
    ATTENTION = "attention"
    BAD = "bad"


class Line(NamedTuple):
    text: str
    mood: Mood = Mood.PLAIN


class Curves:
    """What each sensor said in the last looks; a row of bars for each."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], deque[float]] = {}
        self._written_at_ms = 0

    def note(self, status: dict[str, Any]) -> None:
        """The same status twice counts once."""
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
    """Everything from top to bottom. Who shows it cuts off what does not fit."""
    status = seen.status
    return [
        _head(seen),
        *_journal(status),
        Line(""),
        Line(f"{'LINK':<{NAME_CELLS}} {'STATE':<6} {'WAITING':>9} {'OLDEST':>9} {'ACKNOWLEDGED':>13}", Mood.QUIET),
        *(_link(name, link, status["journal"]) for name, link in status["links"].items()),
        *_archives(status["archives"]),
        Line(""),
        *_devices(status["devices"], curves),
        Line(""),
        Line("LAST EVENTS", Mood.QUIET),
        *(_event(event) for event in reversed(status["events"])),
    ]


def _head(seen: Seen) -> Line:
    status = seen.status
    state = "running" if seen.is_moving else "NOT MOVING" if seen.is_alive else "NOT RUNNING"
    ran = _span((status["written_at_ms"] - status["started_at_ms"]) / 1000)
    text = f"{status['device']['name']}  {status['device']['address']}  {state} for {ran}, seen {seen.age_s:.0f} s ago"
    return Line(text, Mood.TITLE if seen.is_moving else Mood.BAD)


def _journal(status: dict[str, Any]) -> Iterator[Line]:
    journal, clock = status["journal"], status["clock"]
    used = 1 - journal["room_bytes"] / max(1, journal["max_bytes"])
    cells = round(max(0.0, min(1.0, used)) * GAUGE_CELLS)
    gauge = "█" * cells + "░" * (GAUGE_CELLS - cells)
    yield Line(
        f"journal {gauge} {used:.0%} of {journal['max_bytes'] / 1e6:.0f} MB, room for {_span(journal['full_in_s'])},"
        f" card lasts {_span(journal['card_life_s'])}",
        Mood.ATTENTION if used > 0.7 else Mood.PLAIN,
    )
    lost = journal["shed_records"] + journal["damaged_records"]
    yield Line(
        f"messages {status['messages']}, lost {lost}, clock {'right' if clock['is_synchronised'] else 'not set'}",
        Mood.ATTENTION if lost else Mood.PLAIN,
    )
    if problem := status["storage_problem"]:
        yield Line(f"the journal cannot be written: {printable(problem)}", Mood.BAD)


def _link(name: str, link: dict[str, Any], journal: dict[str, Any]) -> Line:
    waiting, oldest = journal["waiting"].get(name, 0), _span(journal["oldest_waits_s"].get(name))
    state = "up" if link["is_up"] else "DOWN"
    why = "" if link["is_up"] else f"  {printable(link['problem'])}"
    text = f"{name:<{NAME_CELLS}} {state:<6} {waiting:>9} {oldest:>9} {link['acknowledged']:>13}{why}"
    return Line(text, Mood.PLAIN if link["is_up"] else Mood.ATTENTION)


def _archives(archives: dict[str, Any] | None) -> Iterator[Line]:
    if archives is not None:
        problem = archives["problem"] or archives["ship_problem"]
        why = f"  {printable(problem)}" if problem else ""
        text = f"archives: {archives['kept']} without a receipt, {archives['shipped']} with one{why}"
        yield Line(text, Mood.ATTENTION if problem else Mood.PLAIN)


def _devices(devices: dict[str, Any], curves: Curves) -> Iterator[Line]:
    for name, device in devices.items():
        is_up = device["state"] == "up"
        why = f"  {printable(device['reason'])}" if device["reason"] else ""
        mood = Mood.QUIET if is_up else Mood.BAD if device["state"] == "down" else Mood.ATTENTION
        state = device["state"] if is_up else device["state"].upper()
        yield Line(f"{name}: {state}, {device['readings']} readings{why}", mood)
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
    mood = {"WARNING": Mood.ATTENTION, "ERROR": Mood.BAD, "CRITICAL": Mood.BAD}.get(event["level"], Mood.PLAIN)
    again = f" ({event['times']} times)" if event["times"] > 1 else ""
    return Line(f"{at}  {printable(event['text'])}{again}", mood)


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)


def cut(lines: Sequence[Line], offset: int, width: int, height: int) -> list[Line]:
    """What fits, from the line at `offset` on."""
    return [Line(line.text[:width], line.mood) for line in lines[offset : offset + height]]
