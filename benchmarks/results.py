"""The results of a run: a table, the same as JSON, and a plot of the distance to each limit."""

import dataclasses
import json
import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Figure, NotTaken, Result

__all__ = ["as_json", "as_table", "exit_code", "from_json", "summary", "write_results"]

PACKAGES: Final = ("headgate", "coincurve", "orjson", "zstandard", "cbor2", "paho-mqtt", "websockets", "pyspark")
ROW: Final = 18
NAMES_WIDTH: Final = 530
MISSED_WIDTH: Final = 60
HELD_WIDTH: Final = 240
VALUES_WIDTH: Final = 150
REACH: Final = 10.0  # a bar ends at ten times its limit


def write_results(results: Sequence[Result], folder: Path) -> None:
    figures = [each for each in results if isinstance(each, Figure)]
    not_taken = [each for each in results if isinstance(each, NotTaken)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.md").write_text("\n".join(as_table(results)) + "\n")
    values = {"machine": machine(), "figures": list(as_json(figures)), "not_taken": list(as_json(not_taken))}
    (folder / "figures.json").write_text(json.dumps(values, indent=1))
    (folder / "limits.svg").write_text(limits_plot(figures))


def summary(results: Sequence[Result]) -> list[str]:
    figures = [each for each in results if isinstance(each, Figure)]
    not_taken = [each for each in results if isinstance(each, NotTaken)]
    missed = [figure for figure in figures if not figure.holds]
    counts = f"{len(figures) - len(missed)} figures hold, {len(missed)} missed, {len(not_taken)} not taken"
    reasons = Counter(_in_one_line(each.reason) for each in not_taken)
    return [counts, *(f"{count} not taken: {reason}" for reason, count in reasons.items())]


def exit_code(results: Iterable[Result], *, is_ci: bool) -> int:
    """1 if a limit is missed or a benchmark failed; in CI also if a figure is not taken for any other reason."""
    return int(any(each.is_fault or is_ci if isinstance(each, NotTaken) else not each.holds for each in results))


def machine() -> dict[str, str]:
    """The machine of the figures. Most are ratios, so that those of other machines are comparable."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))), "?")


def as_json(results: Iterable[Result]) -> Iterable[dict[str, Any]]:
    for each in results:
        values = dataclasses.asdict(each)
        yield {**values, "holds": each.holds} if isinstance(each, Figure) else values


def from_json(values: dict[str, Any]) -> Result:
    """The reverse, for one result."""
    if "reason" in values:
        return NotTaken(**values)
    return Figure(**{name: value for name, value in values.items() if name != "holds"})


def as_table(results: Iterable[Result]) -> list[str]:
    described = ", ".join(f"{name} {value}" for name, value in machine().items())
    return [described, "", "| figure | measured | limit | holds | note |", "|---|---|---|---|---|", *map(_row, results)]


def _row(result: Result) -> str:
    if isinstance(result, NotTaken):
        reason = _in_one_line(result.reason).replace("|", "\\|")
        return f"| {result.name} | not taken | | | {reason} |"
    return _figure_row(result)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _figure_row(figure: Figure) -> str:
    holds = "" if not figure.limit else "yes" if figure.holds else "NO"
    return f"| {figure.name} | {_shown(figure)} | {figure.limit} | {holds} | {figure.note} |"


def _shown(figure: Figure) -> str:
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
        f'<text x="{middle + HELD_WIDTH + 8}" y="{y + 10}" fill="#555">{escape(_shown(figure))}</text>',
    ]


def margin(figure: Figure) -> float:
    """The ratio of a figure to its limit; below 1 the limit is missed. At most `REACH` either way."""
    if figure.at_least is not None:
        better, worse = figure.value, figure.at_least
    else:
        better, worse = figure.at_most or 0.0, figure.value
    if better == worse:
        return 1.0
    return REACH if worse <= 0 else max(1 / REACH, min(REACH, better / worse))
