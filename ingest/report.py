"""The report: one HTML page that needs nothing but itself."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from ingest.plots import Point, bar_plot, line_plot, stacked_plot

__all__ = ["render_page"]

LEDGER_COLUMNS: Final = (
    "device", "chain", "produced", "archived", "ingested", "duplicate", "quarantined", "held", "lost_explained",
    "lost_unexplained", "broken_links", "archives", "balanced",
)  # fmt: skip
GAP_COLUMNS: Final = (
    "device", "chain", "after_timestamp_ms", "before_timestamp_ms", "missing", "explained", "held", "cause",
)  # fmt: skip
DEVICE_COLUMNS: Final = ("device", "messages", "archives", "open_gaps", "first", "last")
_STYLE: Final = """
body{font:14px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-size:12px;display:block;overflow-x:auto}
td,th{padding:3px 8px;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}
svg{width:100%;max-width:760px;font:11px sans-serif}
.legend span{margin-right:1em}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
.yes{color:#2b7a3d;font-weight:bold}.no{color:#b3261e;font-weight:bold}
"""


def render_page(facts: Mapping[str, Any]) -> str:
    """The page for these facts, as `ingest.facts` collects them."""
    totals = facts["totals"]
    verdict = _verdict(facts["balanced"])
    sections = [
        f"<p>{totals['messages']} messages of {totals['devices']} devices in {totals['chains']} chains, "
        f"from {_text(totals['first'])} to {_text(totals['last'])}.</p>{verdict}",
        _section("Volume, messages per hour", _volume_plot(facts["volume"])),
        _section("Devices", _table(DEVICE_COLUMNS, facts["devices"])),
        _section("Latency, from the event to the collector", _latency(facts)),
        _section("Open gaps per device", bar_plot([(each["device"], each["open_gaps"]) for each in facts["devices"]])),
        _section("Open gaps", _table(GAP_COLUMNS, facts["gaps"])),
        _section("Quarantine by reason", bar_plot([(each["reason"], each["rows"]) for each in facts["quarantine"]])),
        _section("Ledger", _table(LEDGER_COLUMNS, facts["ledger"])),
        *(_section(_curve_title(curve), _curve_plot(curve)) for curve in facts["curves"]),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate ingest</title>'
        f"<style>{_STYLE}</style></head><body><h1>Headgate ingest</h1>{''.join(sections)}</body></html>\n"
    )


def _verdict(balanced: bool) -> str:
    if balanced:
        return '<p class="yes">The ledger balances: every message is ingested, in quarantine or accounted for.</p>'
    return '<p class="no">The ledger does not balance: see the rows that say so.</p>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _volume_plot(volume: list[dict[str, Any]]) -> str:
    by_hour: dict[Any, dict[str, float]] = {}
    for row in volume:
        by_hour.setdefault(row["hour"], {})[row["device"]] = row["messages"]
    return stacked_plot(sorted(by_hour.items()), sorted({row["device"] for row in volume}))


def _latency(facts: Mapping[str, Any]) -> str:
    latency = facts["latency"]
    names = (("p50_s", "half"), ("p90_s", "9 of 10"), ("p99_s", "99 of 100"), ("max_s", "all"))
    said = ", ".join(f"{name} within {_duration(latency[key])}" for key, name in names if latency[key] is not None)
    bars = [(_up_to(each["up_to_s"]), each["messages"]) for each in facts["latency_histogram"]]
    return f"<p>{escape(said)}</p>{bar_plot(bars)}"


def _up_to(seconds: float | None) -> str:
    return "longer" if seconds is None else f"up to {_duration(seconds)}"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _curve_title(curve: Mapping[str, Any]) -> str:
    return f"{curve['quantity']} of {curve['sensor']} in {curve['unit']} ({curve['device']})"


def _curve_plot(curve: Mapping[str, Any]) -> str:
    return line_plot([Point(each["at"], each["min"], each["mean"], each["max"]) for each in curve["points"]])


def _table(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    names = list(columns)
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else "<p>none</p>"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return f'<td class="{"yes" if value else "no"}">{"yes" if value else "NO"}</td>'
    return f"<td>{escape(_text(value))}</td>"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
