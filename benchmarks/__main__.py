"""Run every benchmark, print one table, and answer 1 if a limit is missed. `--json` for scripts.

Each runs in a process of its own: what one leaves in memory does not weigh on the next, and one that fails is told of
without taking the others' figures with it.
"""

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Figure
from benchmarks.results import as_json, as_table, from_json, write_results

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
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write the table, the figures as JSON, and a plot")
    arguments = parser.parse_args()
    names = arguments.name or list(BENCHMARKS)
    if len(names) == 1:
        figures, failed = list(importlib.import_module(BENCHMARKS[names[0]]).measure()), list[str]()
    else:
        figures, failed = _run_each(names)
    print("\n".join(map(json.dumps, as_json(figures)) if arguments.json else as_table(figures)))
    if arguments.out is not None:
        write_results(figures, arguments.out)
        print(f"written: {arguments.out}/figures.md, figures.json, limits.svg", file=sys.stderr)
    missed = [figure.name for figure in figures if not figure.holds]
    print(f"{len(figures) - len(missed)} figures hold, {len(missed)} missed", file=sys.stderr)
    if failed:
        print(f"failed, without figures: {', '.join(failed)}", file=sys.stderr)
    return 1 if missed or failed else 0


def _run_each(names: Sequence[str]) -> tuple[list[Figure], list[str]]:
    """The figures of all that ran to their end, and the names of those that did not."""
    figures, failed = [], []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name, "--json"], stdout=subprocess.PIPE, text=True, check=False
        )
        try:
            found = [from_json(json.loads(line)) for line in done.stdout.splitlines()]
        except ValueError:
            found = []
        figures += found
        if not found:
            failed.append(name)
    return figures, failed


if __name__ == "__main__":
    sys.exit(main())
