"""Runs one scenario and judges it. The folder of a failed scenario is kept, with all logs and data."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from protocol.errors import HeadgateError
from testbed.bench import Bench, inject_faults, inject_final_faults
from testbed.oracle import Evidence, Judgement, gather_evidence, judge
from testbed.scenario import Scenario

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    scenario: Scenario
    folder: Path  # logs and data; deleted after a success, unless `keep`
    took_s: float
    notes: tuple[str, ...]  # what this machine cannot do as the scenario requires
    judgement: Judgement | None  # None: the bench itself failed
    evidence: Evidence | None
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.problems


def _make_folder(name: str, folder: Path | None) -> Path:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"headgate-{name}-", dir=folder))


async def run_scenario(
    scenario: Scenario,
    folder: Path | None,
    log: Log,
    *,
    keep: bool = False,
    agent_environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the scenario in a new folder below `folder`, or below the temporary directory of the system."""
    began_s = time.monotonic()
    run_folder = _make_folder(scenario.name, folder)
    bench = Bench(scenario, run_folder, agent_environment)
    judgement = evidence = None
    problems: tuple[str, ...] = ()
    try:
        async with bench:
            await inject_faults(bench, log)
            await bench.settle()
            await inject_final_faults(bench, log)
            evidence = await asyncio.to_thread(gather_evidence, bench)
        judgement = await asyncio.to_thread(judge, evidence, scenario.expect)
        problems = judgement.problems
    except* (HeadgateError, OSError) as group:
        problems = tuple(str(error) for error in _flatten(group))
    if not problems and not keep:
        await asyncio.to_thread(shutil.rmtree, run_folder, ignore_errors=True)
    return Outcome(
        scenario=scenario,
        folder=run_folder,
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
