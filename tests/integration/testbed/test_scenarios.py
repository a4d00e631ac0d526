"""Every named scenario, and some that chance made up. They mostly wait, so several run at once."""

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import Row, SparkSession

from ingest.archive_rows import DecodeSettings
from ingest.facts import collect_facts
from ingest.job import JobSettings, run_job
from testbed.oracle import find_differences
from testbed.oracle.ledger import Ledger
from testbed.runner import Outcome, run_scenario
from testbed.scenario import Scenario, list_scenarios, load_scenario
from testbed.scenario.random_scenario import random_scenario
from tests.effort import effort, seeds

if TYPE_CHECKING:
    from protocol.streamr.group_keys.group_key import GroupKey

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto"), pytest.mark.needs("cc", "gcc")]

AT_ONCE: Final = 6
POWER_CUTS: Final = effort(test=6, soak=23)


def load(name: str) -> Scenario:
    """As it is named; only the power fails less often in `make test`, where nothing else takes so long."""
    scenario = load_scenario(name)
    if name != "power_cuts":
        return scenario
    [cuts] = scenario.faults
    spared_s = (cuts.times - POWER_CUTS) * (cuts.every_s or 0.0)
    return replace(scenario, faults=(replace(cuts, times=POWER_CUTS),), seconds=scenario.seconds - spared_s)


LONGEST_FIRST: Final = sorted(map(load, list_scenarios()), key=lambda each: -each.seconds)
RANDOM: Final = [random_scenario(1 + seed) for seed in seeds(test=2, soak=12)]
SCENARIOS: Final = (*LONGEST_FIRST, *RANDOM)
NAMES: Final = [scenario.name for scenario in SCENARIOS]


async def run_all() -> dict[str, Outcome]:
    places = asyncio.Semaphore(AT_ONCE)

    async def run_one(scenario: Scenario) -> Outcome:
        async with places:
            return await run_scenario(scenario, None, lambda _: None, keep=True)

    return {outcome.scenario.name: outcome for outcome in await asyncio.gather(*map(run_one, SCENARIOS))}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Outcome]]:
    """The evidence of those that failed stays."""
    found = asyncio.run(run_all())
    yield found
    for outcome in found.values():
        if outcome.is_good:
            shutil.rmtree(outcome.folder)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_or_counted_twice(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert outcome.problems == (), f"seed {outcome.scenario.seed}; the evidence is in {outcome.folder}"


@pytest.fixture(scope="module")
def tables(outcomes: dict[str, Outcome], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One lake of all scenarios' archives: their devices have nothing in common, so they do not disturb each other."""
    landing, tables = tmp_path_factory.mktemp("landing"), tmp_path_factory.mktemp("lake") / "tables"
    keys: dict[str, dict[str, GroupKey]] = {}
    for outcome in outcomes.values():
        if outcome.evidence is not None:
            keys |= {stream: dict(known) for stream, known in outcome.evidence.group_keys.items()}
            for path in (each for place in outcome.evidence.landings for each in place.iterdir() if each.is_file()):
                shutil.copy2(path, landing)
    settings = JobSettings(landing=landing, tables=tables, decode=DecodeSettings(group_keys=keys))
    run_job(spark, settings)
    return tables


def test_the_ledger_of_the_lake_says_the_same(outcomes: dict[str, Outcome], spark: SparkSession, tables: Path) -> None:
    rows = collect_facts(spark, tables)["ledger"]
    assert all(row["balanced"] and row["counted"] == row["ingested"] for row in rows), json.dumps(rows, default=str)
    assert sum(row["quarantined"] for row in rows) == 0, "a signature or a content did not hold"
    assert sum(row["broken_links"] for row in rows) == 0
    judged = [outcome.judgement for outcome in outcomes.values() if outcome.judgement is not None]
    assert sum(row["duplicate"] for row in rows) == sum(each.duplicates for each in judged)


@pytest.fixture(scope="module")
def ledger(spark: SparkSession, tables: Path) -> Ledger:
    collect_facts(spark, tables)
    chains, logs, gaps = (
        [row.asDict() for row in spark.sql(f"SELECT * FROM {table}").collect()] for table in ("ledger", "logs", "gaps")
    )
    return Ledger(chains, logs, gaps)


@pytest.mark.parametrize("name", NAMES)
def test_the_lake_names_exactly_what_is_missing(outcomes: dict[str, Outcome], ledger: Ledger, name: str) -> None:
    judgement = outcomes[name].judgement
    assert judgement is not None
    for device, truth in judgement.devices.items():
        is_forked = any(row["forked"] for row in ledger.logs if row["device"] == device)
        assert list(find_differences(device, ledger.totals_of(device), truth, is_forked=is_forked)) == []


def test_what_rotted_at_the_centre_is_in_quarantine(
    spark: SparkSession, tables: Path, outcomes: dict[str, Outcome]
) -> None:
    collect_facts(spark, tables)
    assert outcomes["damaged_landing"].is_good
    reasons = {row.reason for row in spark.sql("SELECT reason FROM quarantine").collect()}
    assert reasons == {"archive misnamed"}


def test_readings_from_1970_have_their_true_time_in_the_lake(
    spark: SparkSession, tables: Path, outcomes: dict[str, Outcome]
) -> None:
    collect_facts(spark, tables)
    rows = _messages_of(outcomes["clock_from_1970"], spark)
    assert {"corrected", "synchronised"} >= {row.clock for row in rows} > {"synchronised"}
    spread_s = (max(row.event_time for row in rows) - min(row.event_time for row in rows)).total_seconds()
    assert spread_s < 600, "all of it happened within minutes"
    times = [row.event_time for row in sorted(rows, key=lambda row: row.value)]
    jumps_s = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
    assert min(jumps_s) > -2, "what was said later happened later, but for the clock's own uncertainty"


def test_a_week_offline_fills_a_week_of_dates(spark: SparkSession, tables: Path, outcomes: dict[str, Outcome]) -> None:
    collect_facts(spark, tables)
    rows = _messages_of(outcomes["week_offline"], spark)
    assert len({row.date for row in rows}) >= 7


def _devices(outcome: Outcome) -> set[str]:
    assert outcome.evidence is not None, outcome.problems
    return {said.sensor.publisher for said in outcome.evidence.sent.values()}


def _messages_of(outcome: Outcome, spark: SparkSession) -> list[Row]:
    [device] = _devices(outcome)
    query = "SELECT clock, event_time, date, value FROM messages WHERE device = :device AND quantity = 'count'"
    return spark.sql(query, args={"device": device}).collect()
