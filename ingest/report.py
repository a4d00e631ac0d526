"""The report: one HTML page that needs nothing but itself."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from ingest.decoded import LATEST_MS
from ingest.plots import SERIES, Point, bar_plot, line_plot, number, stacked_plot
from ingest.report_style import STYLE

LEDGER_COLUMNS: Final = (
    "device", "chain", "produced", "archived", "ingested", "duplicate", "quarantined", "held", "lost_explained",
    "lost_unexplained", "broken_links", "archives", "balanced",
)  # fmt: skip
LOG_COLUMNS: Final = (
    "device", "log", "lane", "produced", "arrived", "lost_explained", "lost_unexplained", "missing", "on_device",
    "archives", "missing_archives", "checkpoint_at", "abandoned", "forked", "complete",
)  # fmt: skip
GAP_COLUMNS: Final = ("device", "chain", "log", "after", "before", "missing", "explained", "held", "cause")
DEVICE_COLUMNS: Final = ("device", "readings", "archives", "open_gaps", "first", "last")
QUARANTINE_COLUMNS: Final = ("reason", "rows", "records", "readings")
TEXT_COLUMNS: Final = frozenset({"device", "chain", "log", "missing_archives", "cause", "reason"})
ALARMS: Final = frozenset({"forked"})  # good where they are false
NEITHER: Final = frozenset({"abandoned"})  # neither good nor bad
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
MAX_ROWS: Final = 500  # of a table
MAX_BARS: Final = 12
NOTHING_FROM_ELSEWHERE: Final = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(facts: Mapping[str, Any]) -> str:
    """The page for these facts, as `ingest.facts` collects them."""
    totals = facts["totals"]
    span = f"{_text(totals['first'])} to {_text(totals['last'])} UTC" if totals["first"] else "no readings yet"
    body = (
        f"<header><h1>Headgate ingest</h1><p>{escape(span)}</p></header>",
        _verdict(facts),
        _tiles(facts),
        _section("Volume", f"readings per {_step(facts['volume_step_s'])}, by device", _volume(facts)),
        _pair(
            _section("Latency", "from the event to the collector", _latency(facts)),
            _stack(
                _section("Quarantine", "by reason", _quarantine(facts["quarantine"])),
                _section("Gaps", "open ones, by device", _gaps_per_device(facts["devices"])),
            ),
        ),
        _section("Devices", "", _table(DEVICE_COLUMNS, facts["devices"])),
        _section("Device logs", "one row per log and lane, in readings", _table(LOG_COLUMNS, facts["logs"])),
        _section("Open gaps", "holes in the chains, and what explains them", _gaps(facts["gaps"])),
        _section("Ledger", "one row per chain", _table(LEDGER_COLUMNS, sorted(facts["ledger"], key=_worst_first))),
        _pair(*map(_curve, facts["curves"])),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(NOTHING_FROM_ELSEWHERE)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>Headgate ingest</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _verdict(facts: Mapping[str, Any]) -> str:
    problems = [
        f"{facts['totals'][name]:,} readings {text}"
        for name, text in (("missing", "missing"), ("lost_unexplained", "lost, unexplained"))
        if facts["totals"][name]
    ]
    if any(row["forked"] for row in facts["logs"]):
        problems.append("a device log is forked")
    if not facts["balanced"] and not problems:
        problems.append("the ledger does not balance")
    if problems:
        return f'<p class="verdict no">Not complete: {", ".join(problems)}. See device logs, gaps and ledger.</p>'
    on_device = f"; {facts['totals']['on_device']:,} still on devices" if facts["totals"]["on_device"] else ""
    return (
        '<p class="verdict yes">Complete: every reading is ingested, in quarantine, or lost and explained'
        f"{on_device}.</p>"
    )


def _tiles(facts: Mapping[str, Any]) -> str:
    totals = facts["totals"]
    tiles = [
        (totals["produced"], "readings produced", False),
        (totals["ingested"], f"ingested, in {number(totals['messages'])} messages", False),
        (totals["devices"], f"devices, {totals['chains']} chains", False),
        (totals["duplicate"], "duplicates, counted out", False),
        (totals["quarantined"], "in quarantine", False),
        (totals["on_device"], "still on devices", False),
        (totals["lost_explained"], "lost, explained", False),
        (totals["lost_unexplained"], "lost, unexplained", totals["lost_unexplained"] > 0),
        (totals["missing"], "missing", totals["missing"] > 0),
    ]
    shown = (
        f'<div class="tile{" no" if is_bad else ""}"><b>{number(value)}</b><span>{escape(name)}</span></div>'
        for value, name, is_bad in tiles
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def _section(title: str, says: str, body: str) -> str:
    small = f" <small>{escape(says)}</small>" if says else ""
    return f"<section><h2>{escape(title)}{small}</h2>{body}</section>"


def _pair(*sections: str) -> str:
    return f'<div class="pair">{"".join(sections)}</div>' if sections else ""


def _stack(*sections: str) -> str:
    return f'<div class="stack">{"".join(sections)}</div>'


def _volume(facts: Mapping[str, Any]) -> str:
    by_time: dict[Any, dict[str, float]] = {}
    for row in facts["volume"]:
        by_time.setdefault(row["hour"], {})[row["device"]] = row["readings"]
    devices = sorted({row["device"] for row in facts["volume"]})
    plot = stacked_plot(sorted(by_time.items()), devices, facts["volume_step_s"])
    return f'<div class="scroll">{plot}</div>{_legend(devices)}'


def _step(step_s: int) -> str:
    return "hour" if step_s == HOUR_S else _duration(step_s)


def _worst_first(row: Mapping[str, Any]) -> tuple[bool, int]:
    """Where there are too many chains to show, those are shown that somebody must look at."""
    return row["balanced"], -row["lost_unexplained"]


def _legend(devices: Sequence[str]) -> str:
    marks = (
        f'<span><svg viewBox="0 0 10 10"><rect class="s{index % SERIES}" width="10" height="10" rx="2"/></svg>'
        f"{_address(device)}</span>"
        for index, device in enumerate(devices)
    )
    return f'<p class="legend">{"".join(marks)}</p>'


def _latency(facts: Mapping[str, Any]) -> str:
    latency = facts["latency"]
    names = (("p50_s", "half"), ("p90_s", "9 of 10"), ("p99_s", "99 of 100"), ("max_s", "all"))
    said = ", ".join(f"{name} within {_duration(latency[key])}" for key, name in names if latency[key] is not None)
    bars = [(_up_to(each["up_to_s"]), each["readings"]) for each in facts["latency_histogram"]]
    return f"<p>{escape(said)}</p>{bar_plot(bars)}"


def _quarantine(reasons: list[dict[str, Any]]) -> str:
    if not reasons:
        return '<p class="none">nothing is in quarantine</p>'
    return bar_plot([(each["reason"], each["rows"]) for each in reasons])


def _gaps_per_device(devices: list[dict[str, Any]]) -> str:
    if not any(each["open_gaps"] for each in devices):
        return '<p class="none">no chain has a hole</p>'
    most = sorted(devices, key=lambda each: -each["open_gaps"])[:MAX_BARS]
    return bar_plot([(_short(each["device"]), each["open_gaps"]) for each in most])


def _gaps(gaps: list[dict[str, Any]]) -> str:
    shown = [{**gap, "after": _edge(gap, "after"), "before": _edge(gap, "before")} for gap in gaps]
    return _table(GAP_COLUMNS, shown)


def _edge(gap: Mapping[str, Any], side: str) -> str:
    """A time in a chain, or a position in a device log."""
    if gap["log"] is None:
        return _moment(gap[f"{side}_timestamp_ms"])
    return f"lane {gap['lane']}, position {gap['first_position' if side == 'after' else 'next_position']:,}"


def _curve(curve: Mapping[str, Any]) -> str:
    points = [Point(each["at"], each["min"], each["mean"], each["max"]) for each in curve["points"]]
    title = f"{curve['quantity']} of {curve['sensor']}"
    says = f"{curve['unit']}; {number(curve['readings'])} readings of {_short(curve['device'])}"
    return _section(title, says, line_plot(points, curve["step_s"]))


def _table(columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(columns)
    head = "".join(f"<th{_side(name)}>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(name, row[name]) for name in names)}</tr>" for row in rows[:MAX_ROWS])
    if not body:
        return '<p class="none">none</p>'
    rest = f'<p class="none">and {len(rows) - MAX_ROWS:,} more</p>' if len(rows) > MAX_ROWS else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def _cell(column: str, value: Any) -> str:
    if isinstance(value, bool):
        is_good = value != (column in ALARMS)
        text = "yes" if value else "no"
        if column in NEITHER:
            return f"<td>{text}</td>"
        return f'<td class="{"yes" if is_good else "no"}">{text if is_good else text.upper()}</td>'
    if column in ("device", "log") and value:
        return f"<td{_side(column)}>{_address(str(value))}</td>"
    return f"<td{_side(column)}>{escape(_text(value))}</td>"


def _side(column: str) -> str:
    return ' class="text"' if column in TEXT_COLUMNS else ""


def _address(device: str) -> str:
    return f'<abbr title="{escape(device)}">{escape(_short(device))}</abbr>'


def _short(device: str) -> str:
    return device if len(device) <= 14 else f"{device[:6]}…{device[-4:]}"


def _up_to(seconds: float | None) -> str:
    return "longer" if seconds is None else f"up to {_duration(seconds)}"


def _duration(seconds: float) -> str:
    if seconds == DAY_S:
        return "1 day"
    for unit, length in (("days", DAY_S), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "the beginning"
    if milliseconds > LATEST_MS:  # a device without a clock may call any number a time
        return f"{milliseconds} ms"
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case int() | float():
            return number(value)
    return str(value)
