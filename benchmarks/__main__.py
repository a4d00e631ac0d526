"""Run every benchmark, print one table, and answer 1 if a limit is missed. `--json` for scripts."""

import argparse
import dataclasses
import importlib
import json
import platform
import sys
from collections.abc import Iterable

from benchmarks.harness import Figure

BENCHMARKS = {
    "agent": "benchmarks.bench_agent",
    "archive": "benchmarks.bench_archive",
    "collector": "benchmarks.bench_collector",
    "ingest": "benchmarks.bench_ingest",
    "iomessage": "benchmarks.bench_iomessage",
    "journal": "benchmarks.bench_journal",
    "node": "benchmarks.bench_node",
    "path": "benchmarks.bench_path",
    "streamr": "benchmarks.bench_streamr",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    for name in arguments.name or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        figures.extend(importlib.import_module(BENCHMARKS[name]).measure())
    print("\n".join(_json_lines(figures) if arguments.json else _table(figures)))
    missed = [figure.name for figure in figures if not figure.holds]
    print(f"{len(figures) - len(missed)} figures hold, {len(missed)} missed", file=sys.stderr)
    return 1 if missed else 0


def _json_lines(figures: Iterable[Figure]) -> list[str]:
    return [json.dumps({**dataclasses.asdict(figure), "holds": figure.holds}) for figure in figures]


def _table(figures: Iterable[Figure]) -> list[str]:
    machine = f"Python {platform.python_version()} on {platform.machine()}, {platform.system()} {platform.release()}"
    return [machine, "", "| figure | measured | limit | holds | note |", "|---|---|---|---|---|", *map(_row, figures)]


def _row(figure: Figure) -> str:
    holds = "yes" if figure.holds else "NO"
    return f"| {figure.name} | {figure.value:.3g} {figure.unit} | {figure.limit} | {holds} | {figure.note} |"


if __name__ == "__main__":
    sys.exit(main())
