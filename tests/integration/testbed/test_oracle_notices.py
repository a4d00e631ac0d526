"""An oracle that cannot fail is worth nothing: here agents break their promises, and records are tampered with."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.oracle import Evidence, MessageReader, judge, read_lake
from testbed.runner import Outcome, run_scenario
from testbed.scenario import Expectation, Scenario, parse_scenario
from tests.support.sabotage import DOUBLING, NO_SYNC, SILENT, SKIPPING, environment_with

pytestmark = pytest.mark.slow

SHORT = """
title = "short"
seconds = 5.0
[nodes.n]
[collectors.c]
[agents.a]
node = "n"
collector = "c"
disk_megabytes = 32
commit_interval_s = 0.05
[devices.meter]
agent = "a"
rate_hz = 100.0
promise = "every"
"""
POWER_CUT = '[[faults]]\nkind = "power_cut"\ntarget = "agents.a"\nwhen = "agents.a acknowledged >= 150"\n'
ROT = """
[[faults]]
kind = "damage_journal"
target = "agents.a"
at_s = 1.5
every_s = 0.5
times = 4
bits = 2
[expect]
losses = "explained"
"""


def scenario(text: str) -> Scenario:
    return parse_scenario(text.encode(), "short", "short.toml")


def run(text: str, folder: Path, code: str | None = None) -> Outcome:
    environment = None if code is None else environment_with(code, folder / "sabotage")
    trial = run_scenario(scenario(text), folder, lambda _: None, keep=True, agent_environment=environment)
    return asyncio.run(trial)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(SHORT, tmp_path_factory.mktemp("good"))


@pytest.fixture
def evidence(good: Outcome) -> Evidence:
    assert good.problems == ()
    assert good.evidence is not None
    return good.evidence


def problems(evidence: Evidence) -> str:
    return "\n".join(judge(evidence, Expectation()).problems)


def test_an_agent_that_does_not_sync_is_found_out_by_a_power_cut(tmp_path: Path) -> None:
    outcome = run(SHORT.replace('promise = "every"', "") + POWER_CUT, tmp_path, NO_SYNC)
    assert outcome.notes or any("lost: " in problem for problem in outcome.problems)


def test_an_agent_that_skips_records_is_found_out(tmp_path: Path) -> None:
    outcome = run(SHORT, tmp_path, SKIPPING)
    assert any(problem.startswith("lost: the witness of a has ") for problem in outcome.problems)
    assert any("are missing before it, of which 0 are reported" in problem for problem in outcome.problems)


def test_an_agent_that_is_silent_about_what_rotted_is_found_out(tmp_path: Path) -> None:
    damaged = SHORT.replace('promise = "every"', "").replace("disk_megabytes = 32", "archive_every_s = 3.0") + ROT
    outcome = run(damaged, tmp_path, SILENT)
    assert any("are missing before it, of which 0 are reported" in problem for problem in outcome.problems)


def test_an_agent_that_counts_readings_twice_is_found_out(tmp_path: Path) -> None:
    outcome = run(SHORT, tmp_path, DOUBLING)
    assert any(problem.startswith("duplicated: ") for problem in outcome.problems)


def test_an_archive_that_is_gone_is_missed(evidence: Evidence) -> None:
    found = problems(replace(evidence, archives=evidence.archives[1:]))
    assert "lost: the witness of a has " in found


def test_an_archive_that_a_fault_removed_is_missing_exactly(evidence: Evidence) -> None:
    first, *others = evidence.archives
    removed = replace(evidence, archives=others, removed_archives=[first])
    judgement = judge(removed, Expectation(missing="some"))
    assert judgement.problems == ()
    readings = read_lake([first], MessageReader(evidence.group_keys)).readings
    assert (judgement.missing, judgement.arrived) == (readings, judge(evidence, Expectation()).arrived - readings)
    assert f"{readings} readings are missing; expected none" in problems(removed)


def test_a_ledger_that_does_not_know_of_the_last_archive_is_found_out(evidence: Evidence, tmp_path: Path) -> None:
    *others, last = sorted(evidence.archives, key=lambda path: path.stat().st_mtime_ns)
    removed = replace(evidence, archives=others, removed_archives=[last])
    assert judge(removed, Expectation(missing="some")).problems == ()
    without_checkpoints = judge(replace(removed, landings=[tmp_path]), Expectation(missing="some")).problems
    assert any("the ledger counts 0 readings" in problem and "as missing" in problem for problem in without_checkpoints)


def test_a_bit_that_flipped_in_the_lake_is_found(evidence: Evidence, tmp_path: Path) -> None:
    first = evidence.archives[0]
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / first.name).write_bytes(data)
    found = problems(replace(evidence, archives=[tmp_path / first.name, *evidence.archives[1:]]))
    assert "its content does not match the digest" in found


def test_an_archive_that_comes_twice_changes_nothing(evidence: Evidence) -> None:
    judgement = judge(evidence, Expectation())
    again = judge(replace(evidence, archives=[*evidence.archives, evidence.archives[0]]), Expectation())
    assert again.problems == ()
    assert (again.arrived, again.duplicates > 0) == (judgement.arrived, True)


def test_a_number_that_no_device_said_is_found(evidence: Evidence) -> None:
    said = replace(evidence.sent["meter"], produced=100)
    assert "not produced by devices.meter" in problems(replace(evidence, sent={"meter": said}))


def test_a_number_that_was_promised_and_never_came_is_missed(evidence: Evidence) -> None:
    said = evidence.sent["meter"]
    said = replace(said, produced=said.produced + 1, promised=said.promised | {said.produced + 1})
    assert "lost after acknowledgement: " in problems(replace(evidence, sent={"meter": said}))


def test_too_little_is_not_enough(evidence: Evidence) -> None:
    assert "expected at least 1000000" in "\n".join(judge(evidence, Expectation(at_least=1_000_000)).problems)


def test_what_the_devices_said_is_what_the_lake_has(evidence: Evidence) -> None:
    lake = read_lake(evidence.archives, MessageReader(evidence.group_keys))
    said = evidence.sent["meter"]
    assert lake.numbers[said.sensor] == Counter(range(1, said.produced + 1))
