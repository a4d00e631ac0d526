"""Runs one scenario and judges it. The folder of a failed scenario is kept, with all logs and data."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from protocol.errors import HeadgateError
from testbed.bench import Bench, break_as_planned
from testbed.oracle import Evidence, Judgement, gather_evidence, judge
from testbed.scenario import Scenario

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    scenario: Scenario
    folder: Path  # the evidence; gone after a good end unless it was to be kept
    took_s: float
    notes: tuple[str, ...]  # what this machine could not do as the scenario wanted
    judgement: Judgement | None  # None: the bench itself failed
    evidence: Evidence | None
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.problems


def _new_place(name: str, folder: Path | None) -> Path:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"headgate-{name}-", dir=folder))


async def run_scenario(
    scenario: Scenario,
    folder: Path | None,
    say: Say,
    *,
    keep: bool = False,
    agent_environment: Mapping[str, str] | None = None,
) -> Outcome:
    """In a new folder below `folder`, or below the system's place for temporary ones."""
    began_s = time.monotonic()
    place = _new_place(scenario.name, folder)
    bench = Bench(scenario, place, agent_environment)
    judgement: Judgement | None = None
    evidence: Evidence | None = None
    problems: tuple[str, ...] = ()
    try:
        async with bench:
            await break_as_planned(bench, say)
            await bench.settle()
            evidence = await asyncio.to_thread(gather_evidence, bench)
        judgement = await asyncio.to_thread(judge, evidence, scenario.expect)
        problems = judgement.problems
    except* (HeadgateError, OSError) as group:
        problems = tuple(str(error) for error in _flatten(group))
    if not problems and not keep:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    return Outcome(
        scenario=scenario,
        folder=place,
        took_s=time.monotonic() - began_s,
        notes=tuple(bench.notes),
        judgement=judgement,
        evidence=evidence,
        problems=problems,
    )


def _flatten(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _flatten(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
