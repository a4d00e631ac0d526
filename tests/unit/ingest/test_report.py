import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.plots import BOTTOM, HALF, HEIGHT, LEFT, RIGHT, TIME_TICK, TOP, Point, bar_plot, line_plot, stacked_plot
from ingest.report import LEDGER_COLUMNS, LOG_COLUMNS, MAX_ROWS, render_page

HOUR_S = 3600
START = datetime(2026, 1, 1, tzinfo=UTC)
TOTALS: dict[str, Any] = {
    "readings": 3, "messages": 1, "devices": 1, "chains": 1, "first": START, "last": START, "produced": 3,
    "archived": 3, "ingested": 3, "duplicate": 0, "quarantined": 0, "lost_explained": 0, "lost_unexplained": 0,
    "missing": 0, "on_device": 0, "complete": True,
}  # fmt: skip
FACTS: dict[str, Any] = {
    "totals": TOTALS,
    "devices": [{"device": "0xd1", "readings": 3, "archives": 1, "open_gaps": 0, "first": START, "last": START}],
    "volume": [{"device": "0xd1", "hour": START, "readings": 3}],
    "volume_step_s": HOUR_S,
    "latency": {"p50_s": 5.0, "p90_s": 90.0, "p99_s": 7200.0, "max_s": 200_000.0},
    "latency_histogram": [{"up_to_s": 10, "readings": 3}, {"up_to_s": None, "readings": 0}],
    "quarantine": [{"reason": "<script>", "rows": 1, "records": 1}],
    "gaps": [],
    "ledger": [],
    "logs": [],
    "curves": [],
    "balanced": True,
}


def test_whatever_a_device_says_cannot_become_markup() -> None:
    page = render_page(FACTS)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def _with(**totals: int) -> dict[str, Any]:
    return {**FACTS, "totals": {**TOTALS, **totals}, "balanced": not totals}


def test_the_banner_says_whether_everything_is_accounted_for() -> None:
    assert 'class="verdict yes">Complete: every reading is ingested' in render_page(FACTS)
    assert "; 7 still on devices." in render_page({**_with(on_device=7), "balanced": True})
    assert "Not complete: the ledger does not balance." in render_page({**FACTS, "balanced": False})


def test_the_banner_names_what_is_missing() -> None:
    page = render_page(_with(missing=1200, lost_unexplained=3))
    assert 'class="verdict no">Not complete: 1,200 readings missing, 3 readings lost, unexplained.' in page


def test_a_forked_log_is_named() -> None:
    log = dict.fromkeys(LOG_COLUMNS, 0) | {"device": "0xd1", "log": "7c", "forked": True, "complete": False}
    page = render_page({**FACTS, "logs": [log], "balanced": False})
    assert "Not complete: a device log is forked." in page
    assert '<td class="no">YES</td>' in page


def test_latency_is_shown_in_units_of_its_size() -> None:
    assert "half within 5 s, 9 of 10 within 1.5 min, 99 of 100 within 2 h, all within 2.31 days" in render_page(FACTS)


def test_plots_of_nothing_say_so() -> None:
    for plot in (bar_plot([]), stacked_plot([], [], HOUR_S), line_plot([], 60)):
        assert "nothing to show" in plot


def test_a_line_stays_within_its_plot() -> None:
    points = [Point(START + timedelta(minutes=each), each - 1.0, each, each + 1.0) for each in range(5)]
    plot = line_plot(points, 60)
    (line,) = re.findall(r'<polyline class="line" points="([^"]+)"', plot)
    places = [tuple(map(float, place.split(","))) for place in line.split()]
    assert (places[0][0], places[-1][0]) == (LEFT, HALF - RIGHT)
    assert all(TOP <= y <= HEIGHT - BOTTOM for _, y in places)


def test_a_line_is_broken_where_nothing_came() -> None:
    points = [Point(START + timedelta(minutes=each), 1.0, 1.0, 1.0) for each in (0, 1, 2, 30, 31)]
    assert line_plot(points, 60).count("<polyline") == 2


def test_one_point_and_one_column_are_drawn() -> None:
    assert "<circle" in line_plot([Point(START, 1.0, 1.0, 1.0)], 60)
    assert "<rect" in stacked_plot([(START, {"0xd1": 3})], ["0xd1"], HOUR_S)


@given(low=st.floats(-1e12, 1e12), spread=st.floats(0, 1e12))
def test_any_range_of_values_has_a_few_ticks(low: float, spread: float) -> None:
    points = [Point(START, low, low, low), Point(START + timedelta(days=40), low, low, low + spread)]
    assert 1 <= line_plot(points, 60).count('class="value"') <= 8


def test_the_page_draws_gaps_and_curves() -> None:
    gap = dict.fromkeys(("missing", "explained", "held", "cause", "after_timestamp_ms"), None)
    gap |= {"device": "0xd1", "chain": "boiler", "log": None, "before_timestamp_ms": 1_790_000_000_000}
    point = {"at": START, "min": 1.0, "mean": 2.0, "max": 3.0}
    curve = {"quantity": "temperature", "sensor": "boiler", "unit": "Cel", "device": "0xd1", "readings": 1}
    far = {**gap, "after_timestamp_ms": 2**53 - 2, "before_timestamp_ms": 2**53 - 1}
    in_log = {**gap, "chain": None, "log": "7c", "lane": 4, "first_position": 1000, "next_position": 1250}
    page = render_page({**FACTS, "gaps": [gap, far, in_log], "curves": [{**curve, "step_s": 60, "points": [point]}]})
    assert "9007199254740991 ms" in page
    assert "the beginning" in page
    assert "lane 4, position 1,000" in page
    assert "lane 4, position 1,250" in page
    assert "temperature of boiler" in page
    assert "2026-09-21 14:13:20" in page


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, math.inf, -math.inf, math.nan])
def test_a_value_that_no_axis_reaches_is_left_out(value: float) -> None:
    points = [Point(START + timedelta(minutes=each), 1.0, 1.0, 1.0) for each in range(3)]
    wild = Point(START + timedelta(minutes=3), value, value, value)
    assert line_plot([*points, wild], 60) == line_plot(points, 60)
    assert "nothing to show" in line_plot([wild], 60)


def test_a_plot_of_a_century_has_no_more_marks_than_room() -> None:
    points = [Point(START + timedelta(days=365 * 5 * each), 1.0, 1.0, 1.0) for each in range(20)]
    assert line_plot(points, 86_400 * 365 * 5).count('class="time"') <= HALF // TIME_TICK + 1


def test_thousands_of_devices_and_chains_make_no_page_of_thousands_of_rows() -> None:
    device = {**FACTS["devices"][0], "open_gaps": 1}
    row: dict[str, Any] = dict.fromkeys(LEDGER_COLUMNS, 0) | {"device": "0xd1", "balanced": True}
    bad = {**row, "chain": "the bad one", "balanced": False}
    ledger = [{**row, "chain": f"chain {number}"} for number in range(3000)]
    page = render_page({**FACTS, "devices": [device] * 3000, "ledger": [*ledger, bad], "balanced": False})
    assert page.count("<tr>") <= 2 * (MAX_ROWS + 1)
    assert page.count("and 2,500 more") == 1
    assert page.index("the bad one") < page.index("chain 0")
    assert len(page) < 400_000


def test_the_page_may_load_nothing_and_run_nothing() -> None:
    assert "default-src &#x27;none&#x27;; style-src" in render_page(FACTS)
