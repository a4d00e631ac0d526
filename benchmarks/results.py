"""What a run leaves behind: the table for people, the same as JSON for scripts, and a plot of how far each limit is."""

import dataclasses
import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Figure

__all__ = ["as_json", "as_table", "from_json", "write_results"]

PACKAGES: Final = ("headgate", "coincurve", "orjson", "zstandard", "cbor2", "paho-mqtt", "websockets", "pyspark")
ROW: Final = 18
NAMES_WIDTH: Final = 530
MISSED_WIDTH: Final = 60
HELD_WIDTH: Final = 240
VALUES_WIDTH: Final = 150
REACH: Final = 10.0  # a bar ends at ten times its limit


def write_results(figures: Sequence[Figure], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.md").write_text("\n".join(as_table(figures)) + "\n")
    (folder / "figures.json").write_text(
        json.dumps({"machine": machine(), "figures": list(as_json(figures))}, indent=1)
    )
    (folder / "limits.svg").write_text(limits_plot(figures))


def machine() -> dict[str, str]:
    """On what the figures were taken. They are ratios, so that another machine's are comparable."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))), "?")


def as_json(figures: Iterable[Figure]) -> Iterable[dict[str, Any]]:
    return ({**dataclasses.asdict(figure), "holds": figure.holds} for figure in figures)


def from_json(values: dict[str, Any]) -> Figure:
    """The opposite, for one of them."""
    return Figure(**{name: value for name, value in values.items() if name != "holds"})


def as_table(figures: Iterable[Figure]) -> list[str]:
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    return [told, "", "| figure | measured | limit | holds | note |", "|---|---|---|---|---|", *map(_row, figures)]


def _row(figure: Figure) -> str:
    holds = "" if not figure.limit else "yes" if figure.holds else "NO"
    return f"| {figure.name} | {_told(figure)} | {figure.limit} | {holds} | {figure.note} |"


def _told(figure: Figure) -> str:
    value = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.3g}"
    return f"{value} {figure.unit}".strip()


def limits_plot(figures: Sequence[Figure]) -> str:
    """One bar per limit, to the right as far as it is held, to the left as far as it is missed, in powers of ten."""
    limited = [figure for figure in figures if figure.limit]
    middle, height = NAMES_WIDTH + MISSED_WIDTH, ROW * len(limited) + 30
    width = middle + HELD_WIDTH + VALUES_WIDTH
    bars = [part for at, figure in enumerate(limited) for part in _bar(figure, middle, ROW * at + 22)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="{middle}" y="12" text-anchor="middle" fill="#555">the limit</text>',
            *bars,
            f'<path d="M{middle} 18V{height - 6}" stroke="#333"/>',
            "</svg>\n",
        ]
    )


def _bar(figure: Figure, middle: float, y: float) -> Sequence[str]:
    times = margin(figure)
    length = min(HELD_WIDTH if times >= 1 else MISSED_WIDTH, HELD_WIDTH * abs(math.log(times, REACH)))
    x, colour = (middle, "#2a7f62") if times >= 1 else (middle - length, "#b23a48")
    return [
        f'<text x="{NAMES_WIDTH - 8}" y="{y + 10}" text-anchor="end">{escape(figure.name)}</text>',
        f'<rect x="{x:.1f}" y="{y}" width="{max(length, 1):.1f}" height="12" fill="{colour}"/>',
        f'<text x="{middle + HELD_WIDTH + 8}" y="{y + 10}" fill="#555">{escape(_told(figure))}</text>',
    ]


def margin(figure: Figure) -> float:
    """How many times better than its limit a figure is; below 1 it is worse. At most `REACH` either way."""
    if figure.at_least is not None:
        better, worse = figure.value, figure.at_least
    else:
        better, worse = figure.at_most or 0.0, figure.value
    if better == worse:
        return 1.0
    return REACH if not worse else max(1 / REACH, min(REACH, better / worse))
