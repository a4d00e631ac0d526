"""Plots as SVG text: no script, no font, nothing from anywhere else. Colours come from the page's style by class."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

FULL: Final = 1040  # the width of a plot across the page, in the units of its text
HALF: Final = 460  # of one of two beside each other
HEIGHT: Final = 210
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 28
FLOOR: Final = HEIGHT - BOTTOM
SERIES: Final = 8  # colours, after which they begin again
BAR_ROW: Final = 26
BAR_NAME: Final = 164  # the longest of the reasons fits, in a wide font too
BAR_VALUE: Final = 70
LONGEST_BREAK_STEPS: Final = 3  # between two points that a line still joins
LARGEST_DRAWN: Final = 1e300  # beyond, differences of two values are no numbers any more
TIME_TICK: Final = 70  # the room for one
_TIME_STEPS_S: Final = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400)
_LONGEST_STEP_S: Final = 28 * 86_400


class Point(NamedTuple):
    at: datetime
    low: float
    middle: float
    high: float


class _Frame(NamedTuple):
    """Where a moment and a value lie in a plot."""

    first_s: float
    last_s: float
    bottom: float
    top: float
    width: int

    def x(self, at_s: float) -> float:
        return LEFT + (at_s - self.first_s) / max(self.last_s - self.first_s, 1) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return FLOOR - (value - self.bottom) / ((self.top - self.bottom) or 1) * (FLOOR - TOP)


def number(value: float) -> str:
    """As people write it: 12,400 and 0.25."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def bar_plot(bars: Sequence[tuple[str, float]], width: int = HALF) -> str:
    """Horizontal bars with their names and values."""
    if not bars:
        return _empty()
    most = max(value for _, value in bars) or 1
    lines = []
    for index, (name, value) in enumerate(bars):
        y, length = index * BAR_ROW, (width - BAR_NAME - BAR_VALUE) * value / most
        lines.append(
            f'<text class="name" x="{BAR_NAME - 10}" y="{y + 18}">{escape(name)}</text>'
            f'<rect class="s0" x="{BAR_NAME}" y="{y + 5}" width="{max(length, 1):.1f}" height="17" rx="3"/>'
            f'<text x="{BAR_NAME + length + 7:.1f}" y="{y + 18}">{number(value)}</text>'
        )
    return _svg(lines, width, len(bars) * BAR_ROW + 4)


def stacked_plot(
    columns: Sequence[tuple[datetime, dict[str, float]]], names: Sequence[str], step_s: float, width: int = FULL
) -> str:
    """One column per step of time, a colour per name."""
    if not columns:
        return _empty()
    first_s, last_s = _seconds(columns[0][0]), _seconds(columns[-1][0]) + step_s
    frame = _Frame(first_s, last_s, 0.0, _round_up(max(sum(parts.values()) for _, parts in columns)), width)
    column_width = max(frame.x(first_s + step_s) - LEFT - 1, 0.8)
    lines = list(_axes(frame))
    for at, parts in columns:
        reached = 0.0
        for index, name in enumerate(names):
            below, reached = reached, reached + parts.get(name, 0)
            height = frame.y(below) - frame.y(reached)
            if height > 0:
                lines.append(
                    f'<rect class="s{index % SERIES}" x="{frame.x(_seconds(at)):.1f}" y="{frame.y(reached):.1f}"'
                    f' width="{column_width:.2f}" height="{height:.2f}"/>'
                )
    return _svg(lines, width, HEIGHT)


def line_plot(points: Sequence[Point], step_s: float, width: int = HALF) -> str:
    """The middle as a line within the band of low and high, broken where nothing came for a while.

    Values that no axis reaches are left out.
    """
    points = [point for point in points if all(abs(value) <= LARGEST_DRAWN for value in point[1:])]
    if not points:
        return _empty()
    low, high = min(point.low for point in points), max(point.high for point in points)
    margin = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    frame = _Frame(_seconds(points[0].at), _seconds(points[-1].at), low - margin, high + margin, width)
    lines = list(_axes(frame))
    for run in _unbroken(points, step_s * LONGEST_BREAK_STEPS):
        edge = [(point.at, point.high) for point in run] + [(point.at, point.low) for point in reversed(run)]
        lines.append(f'<polygon class="band" points="{_places(frame, edge)}"/>')
        lines.append(f'<polyline class="line" points="{_places(frame, [(each.at, each.middle) for each in run])}"/>')
        if len(run) == 1:
            only = run[0]
            lines.append(
                f'<circle class="s0" cx="{frame.x(_seconds(only.at)):.1f}" cy="{frame.y(only.middle):.1f}" r="2.5"/>'
            )
    return _svg(lines, width, HEIGHT)


def _unbroken(points: Sequence[Point], longest_s: float) -> Iterator[list[Point]]:
    run: list[Point] = []
    for point in points:
        if run and _seconds(point.at) - _seconds(run[-1].at) > longest_s:
            yield run
            run = []
        run.append(point)
    yield run


def _places(frame: _Frame, values: Sequence[tuple[datetime, float]]) -> str:
    return " ".join(f"{frame.x(_seconds(at)):.1f},{frame.y(value):.1f}" for at, value in values)


def _axes(frame: _Frame) -> Iterator[str]:
    for value in _value_ticks(frame.bottom, frame.top):
        y = frame.y(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{frame.width - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text class="value" x="{LEFT - 8}" y="{y + 4:.1f}">{number(value)}</text>'
    yield f'<line class="axis" x1="{LEFT}" y1="{FLOOR}" x2="{frame.width - RIGHT}" y2="{FLOOR}"/>'
    step_s = _time_step_s(frame.last_s - frame.first_s, max(1, frame.width // TIME_TICK))
    at_s = math.ceil(frame.first_s / step_s) * step_s
    while at_s <= frame.last_s:
        x = frame.x(at_s)
        yield f'<line class="axis" x1="{x:.1f}" y1="{FLOOR}" x2="{x:.1f}" y2="{FLOOR + 4}"/>'
        yield f'<text class="time" x="{min(x, frame.width - RIGHT - 18):.1f}" y="{FLOOR + 18}">{_moment(at_s)}</text>'
        at_s += step_s


def _value_ticks(bottom: float, top: float) -> Iterator[float]:
    step = _nice_step((top - bottom) / 4)
    first = math.ceil(bottom / step)
    for index in range(first, math.floor(top / step + 1e-9) + 1):
        yield index * step


def _nice_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not smaller than this."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _round_up(value: float) -> float:
    step = _nice_step((value or 1) / 4)
    return math.ceil((value or 1) / step) * step


def _time_step_s(spread_s: float, most_ticks: int) -> int:
    step_s = next((step for step in _TIME_STEPS_S if spread_s / step <= most_ticks), _LONGEST_STEP_S)
    return step_s * max(1, math.ceil(spread_s / step_s / most_ticks))


def _moment(at_s: float) -> str:
    """The hour within a day, the date where one begins."""
    at = datetime.fromtimestamp(at_s, UTC)
    return f"{at:%d %b}" if at.hour == at.minute == 0 else f"{at:%H:%M}"


def _seconds(at: datetime) -> float:
    """Times without a zone are UTC, as all of the tables'."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _svg(lines: Sequence[str], width: int, height: int) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(lines)}</svg>'


def _empty() -> str:
    return '<p class="none">nothing to show</p>'
