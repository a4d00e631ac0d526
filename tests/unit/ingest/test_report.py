from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.plots import Point, bar_plot, line_plot, stacked_plot
from ingest.report import render_page

START = datetime(2026, 1, 1, tzinfo=UTC)
FACTS: dict[str, Any] = {
    "totals": {"messages": 3, "devices": 1, "chains": 1, "first": START, "last": START},
    "devices": [{"device": "0xd1", "messages": 3, "archives": 1, "open_gaps": 0, "first": START, "last": START}],
    "volume": [{"device": "0xd1", "hour": START, "messages": 3}],
    "latency": {"p50_s": 5.0, "p90_s": 90.0, "p99_s": 7200.0, "max_s": 200_000.0},
    "latency_histogram": [{"up_to_s": 10, "messages": 3}, {"up_to_s": None, "messages": 0}],
    "quarantine": [{"reason": "<script>", "rows": 1, "records": 1}],
    "gaps": [],
    "ledger": [],
    "curves": [],
    "balanced": True,
}


def test_whatever_a_device_says_cannot_become_markup() -> None:
    page = render_page(FACTS)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_page_says_whether_the_ledger_balances() -> None:
    assert "The ledger balances" in render_page(FACTS)
    assert "does not balance" in render_page({**FACTS, "balanced": False})


def test_latency_is_told_in_units_of_its_size() -> None:
    assert "half within 5 s, 9 of 10 within 1.5 min, 99 of 100 within 2 h, all within 2.31 days" in render_page(FACTS)


def test_plots_of_nothing_say_so() -> None:
    assert bar_plot([]) == stacked_plot([], []) == line_plot([]) == "<p>nothing to show</p>"


def test_a_line_stays_within_its_plot() -> None:
    points = [Point(START + timedelta(minutes=each), each - 1.0, each, each + 1.0) for each in range(5)]
    plot = line_plot(points)
    assert '<polyline points="70.0,' in plot
    assert " 708.0," in plot


def test_one_point_and_one_column_are_drawn() -> None:
    assert "<polyline" in line_plot([Point(START, 1.0, 1.0, 1.0)])
    assert "<rect" in stacked_plot([(START, {"0xd1": 3})], ["0xd1"])
