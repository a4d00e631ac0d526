"""Run every benchmark, print one table, and answer 1 if a limit is missed. `--json` for scripts."""

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks.results import as_json, as_table, write_results

BENCHMARKS = {
    "agent": "benchmarks.bench_agent",
    "archive": "benchmarks.bench_archive",
    "collector": "benchmarks.bench_collector",
    "ingest": "benchmarks.bench_ingest",
    "iomessage": "benchmarks.bench_iomessage",
    "journal": "benchmarks.bench_journal",
    "link": "benchmarks.bench_link",
    "node": "benchmarks.bench_node",
    "page": "benchmarks.bench_page",
    "path": "benchmarks.bench_path",
    "streamr": "benchmarks.bench_streamr",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write the table, the figures as JSON, and a plot")
    arguments = parser.parse_args()
    figures = []
    for name in arguments.name or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        figures.extend(importlib.import_module(BENCHMARKS[name]).measure())
    print("\n".join(map(json.dumps, as_json(figures)) if arguments.json else as_table(figures)))
    if arguments.out is not None:
        write_results(figures, arguments.out)
        print(f"written: {arguments.out}/figures.md, figures.json, limits.svg", file=sys.stderr)
    missed = [figure.name for figure in figures if not figure.holds]
    print(f"{len(figures) - len(missed)} figures hold, {len(missed)} missed", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
