"""Run every benchmark and print one table; the exit code is 1 if a limit is missed or a benchmark fails.

System packages that are missing are installed first, where that is possible. Each benchmark runs in a process of its
own: memory that one leaves allocated does not slow the next. A figure that cannot be taken is in the table with the
reason; with CI=true it is a failure.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import NotTaken, Result
from benchmarks.programs import needs_of
from benchmarks.results import as_json, as_table, exit_code, from_json, summary, write_results
from tests.support.programs import provide

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
    arguments = _parser().parse_args()
    names = arguments.name or list(BENCHMARKS)
    if not arguments.no_install:
        provide(needs_of(names))
    run = partial(_run, shows_traceback=arguments.traceback) if len(names) == 1 else _run_apart
    results = [result for name in names for result in run(name)]
    print("\n".join(map(json.dumps, as_json(results)) if arguments.json else as_table(results)))
    if arguments.out is not None:
        write_results(results, arguments.out)
        print(f"written: {arguments.out}/figures.md, figures.json, limits.svg", file=sys.stderr)
    for line in summary(results):
        print(line, file=sys.stderr)
    return exit_code(results, is_ci=os.environ.get("CI") == "true")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="benchmarks to run (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write the table, the figures as JSON, and a plot")
    parser.add_argument("--no-install", action="store_true", help="do not install system packages that are missing")
    parser.add_argument("--traceback", action="store_true", help="show the traceback if the benchmark fails")
    return parser


def _run(name: str, *, shows_traceback: bool = False) -> Iterator[Result]:
    """The results of a benchmark; if it fails, those measured so far, and the reason of the failure."""
    try:
        yield from importlib.import_module(BENCHMARKS[name]).measure()
    except Exception as error:
        if shows_traceback:
            raise
        reason = f"{type(error).__name__}: {error}; python -m benchmarks {name} --traceback shows where"
        if isinstance(error, ModuleNotFoundError):
            reason = f"not installed: the Python module {error.name}; make bench installs it"
        yield NotTaken(name=f"{name}: the remaining figures", reason=reason, is_fault=True)


def _run_apart(name: str) -> list[Result]:
    """The same in a process of its own."""
    print(f"measuring {name} …", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks", name, "--json", "--no-install"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    results = [from_json(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    if not results:
        reason = f"its process ended with status {done.returncode}"
        return [NotTaken(name=f"{name}: all figures", reason=reason, is_fault=True)]
    return results


if __name__ == "__main__":
    sys.exit(main())
