"""`headgate testbed`: runs scenarios, lists them, or generates random ones."""

import argparse
import asyncio
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.errors import ExitCode
from testbed.processes import run_until_signal
from testbed.runner import Outcome, run_scenario
from testbed.scenario import Scenario, list_scenarios, load_scenario
from testbed.scenario.random_scenario import random_scenario

DESCRIPTION = "Run the whole system on this machine, inject the faults of a scenario, and verify what arrived."
DEFAULT_JOBS: Final = 2
DEFAULT_SOAK_MINUTES: Final = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_parser = actions.add_parser("run", help="run scenarios")
    run_parser.add_argument(
        "scenarios", nargs="+", metavar="NAME|FILE", help="name shown by 'list', or a scenario file"
    )
    run_parser.add_argument(
        "--jobs",
        type=_positive,
        default=DEFAULT_JOBS,
        metavar="N",
        help="scenarios to run in parallel (default: %(default)s)",
    )
    run_parser.add_argument("--seed", type=int, metavar="N", help="random seed (default: the one of the scenario)")
    soak = actions.add_parser("soak", help="run random scenarios until one fails or time is up")
    soak.add_argument("--seed", type=int, metavar="N", help="seed of the first scenario (default: random)")
    soak.add_argument(
        "--minutes",
        type=_minutes,
        default=DEFAULT_SOAK_MINUTES,
        metavar="M",
        help="minutes to run (default: %(default)g)",
    )
    soak.add_argument("--count", type=_positive, metavar="N", help="stop after N scenarios, instead of --minutes")
    for each in (run_parser, soak):
        each.add_argument(
            "--folder",
            type=Path,
            metavar="DIR",
            help="directory for logs and data of runs (default: the system's temporary one)",
        )
        each.add_argument("--keep", action="store_true", help="keep logs and data of successful runs too")
        each.add_argument("--quiet", action="store_true", help="print one line per scenario, not per fault")
    actions.add_parser("list", help="list the scenarios of the testbed")


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "list":
            for name in list_scenarios():
                print(f"{name:<28}{load_scenario(name).title}")
            return ExitCode.OK
        case "run":
            return _run_named(arguments)
        case _:
            return _soak(arguments)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _minutes(text: str) -> float:
    if not 0 < (number := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError("above 0")
    return number


def _run_named(arguments: argparse.Namespace) -> int:
    scenarios = [load_scenario(name) for name in arguments.scenarios]
    if arguments.seed is not None:
        scenarios = [replace(scenario, seed=arguments.seed) for scenario in scenarios]
    named = zip(scenarios, arguments.scenarios, strict=True)
    outcomes = run_until_signal(_run_all(list(named), arguments))
    return ExitCode.OK if all(outcome.is_good for outcome in outcomes) else ExitCode.NO


async def _run_all(scenarios: Sequence[tuple[Scenario, str]], arguments: argparse.Namespace) -> list[Outcome]:
    slots = asyncio.Semaphore(arguments.jobs)

    async def run_one(scenario: Scenario, name: str) -> Outcome:
        async with slots:
            repeat = f"headgate testbed run {name} --seed {scenario.seed}"
            return await _run_and_report(scenario, arguments, repeat)

    return list(await asyncio.gather(*(run_one(*each) for each in scenarios)))


def _soak(arguments: argparse.Namespace) -> int:
    until_s = time.monotonic() + arguments.minutes * 60
    for seed in _seeds(arguments.seed, arguments.count):
        if arguments.count is None and time.monotonic() > until_s:
            break
        repeat = f"headgate testbed soak --seed {seed} --count 1"
        outcome = run_until_signal(_run_and_report(random_scenario(seed), arguments, repeat))
        if not outcome.is_good:
            return ExitCode.NO
    return ExitCode.OK


def _seeds(first: int | None, count: int | None) -> Iterator[int]:
    seed = secrets.randbelow(1 << 31) if first is None else first
    return iter(range(seed, seed + (count or 1 << 31)))


async def _run_and_report(scenario: Scenario, arguments: argparse.Namespace, repeat: str) -> Outcome:
    began_s = time.monotonic()

    def log(text: str) -> None:
        if not arguments.quiet:
            print(f"{scenario.name} {time.monotonic() - began_s:6.1f} s  {text}", file=sys.stderr, flush=True)

    outcome = await run_scenario(scenario, arguments.folder, log, keep=arguments.keep)
    _report(outcome, repeat, kept=arguments.keep)
    return outcome


def _report(outcome: Outcome, repeat: str, *, kept: bool) -> None:
    scenario, judgement = outcome.scenario, outcome.judgement
    verdict = "passed" if outcome.is_good else "FAILED"
    print(f"{scenario.name}: {verdict} after {outcome.took_s:.0f} s", flush=True)
    if judgement is not None:
        print(f"  {judgement.as_line()}")
    for line in (*outcome.notes, *outcome.problems):
        print(f"  {line}")
    if not outcome.is_good or kept:
        print(f"  logs and data: {outcome.folder}")
    if not outcome.is_good:
        print(f"  seed {scenario.seed}; run it again: {repeat}", flush=True)
