"""Plots as SVG text: no script, no font, nothing from anywhere else."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Final, NamedTuple

__all__ = ["Point", "bar_plot", "line_plot", "stacked_plot"]

WIDTH: Final = 720
HEIGHT: Final = 200
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 10, 28
COLOURS: Final = ("#2a6f97", "#e07a5f", "#81b29a", "#f2cc8f", "#6d597a", "#b56576", "#355070", "#99582a")


class Point(NamedTuple):
    at: datetime
    low: float
    middle: float
    high: float


def bar_plot(bars: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars with their names and values."""
    if not bars:
        return _empty()
    most = max(value for _, value in bars) or 1
    row, name_width = 22, 190
    lines = []
    for index, (name, value) in enumerate(bars):
        y, width = index * row, (WIDTH - name_width - 90) * value / most
        lines.append(
            f'<text x="{name_width - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{name_width}" y="{y + 4}" width="{max(width, 1):.1f}" height="14" fill="{COLOURS[0]}"/>'
            f'<text x="{name_width + width + 6:.1f}" y="{y + 15}">{value:g}</text>'
        )
    return _svg(lines, len(bars) * row + 4)


def stacked_plot(columns: Sequence[tuple[datetime, dict[str, float]]], names: Sequence[str]) -> str:
    """One column per moment, a colour per name."""
    if not columns:
        return _empty()
    most = max(sum(parts.values()) for _, parts in columns) or 1
    first, last = columns[0][0].timestamp(), columns[-1][0].timestamp()
    width = max(1.0, (WIDTH - LEFT - RIGHT) / max(len(columns), (last - first) / 3600 + 1))
    lines = _axes(most, 0.0, columns[0][0], columns[-1][0])
    for at, parts in columns:
        x, y = (
            LEFT + (at.timestamp() - first) / max(last - first, 1) * (WIDTH - LEFT - RIGHT - width),
            HEIGHT - BOTTOM + 0.0,
        )
        for index, name in enumerate(names):
            height = parts.get(name, 0) / most * (HEIGHT - TOP - BOTTOM)
            y -= height
            colour = COLOURS[index % len(COLOURS)]
            lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}"/>')
    return _svg(lines, HEIGHT) + _legend(names)


def line_plot(points: Sequence[Point]) -> str:
    """The middle as a line within the band of low and high."""
    if not points:
        return _empty()
    low, high = min(point.low for point in points), max(point.high for point in points)
    spread = (high - low) or 1.0
    first, last = points[0].at.timestamp(), points[-1].at.timestamp()

    def place(at: datetime, value: float) -> str:
        x = LEFT + (at.timestamp() - first) / max(last - first, 1) * (WIDTH - LEFT - RIGHT)
        return f"{x:.1f},{TOP + (high - value) / spread * (HEIGHT - TOP - BOTTOM):.1f}"

    band = [place(point.at, point.high) for point in points]
    band += [place(point.at, point.low) for point in reversed(points)]
    line = " ".join(place(point.at, point.middle) for point in points)
    lines = _axes(high, low, points[0].at, points[-1].at)
    lines.append(f'<polygon points="{" ".join(band)}" fill="{COLOURS[0]}" opacity="0.2"/>')
    lines.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"/>')
    return _svg(lines, HEIGHT)


def _axes(top: float, bottom: float, first: datetime, last: datetime) -> list[str]:
    floor = HEIGHT - BOTTOM
    return [
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" stroke="#888"/>',
        f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{floor}" stroke="#888"/>',
        f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">{top:g}</text>',
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">{bottom:g}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{first:%Y-%m-%d %H:%M}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{last:%Y-%m-%d %H:%M}</text>',
    ]


def _legend(names: Sequence[str]) -> str:
    marks = (
        f'<span><i style="background:{COLOURS[index % len(COLOURS)]}"></i>{escape(name)}</span>'
        for index, name in enumerate(names)
    )
    return f'<p class="legend">{"".join(marks)}</p>'


def _svg(lines: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(lines)}</svg>'


def _empty() -> str:
    return "<p>nothing to show</p>"
