from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ConfigError
from testbed.scenario import Moment, Progress, list_scenarios, load_scenario, parse_scenario
from testbed.scenario.faults import FAULT_KINDS, Kill
from testbed.scenario.random_scenario import random_scenario

SMALL = """
title = "small"
seconds = 1.0
[collectors.c]
[agents.a]
collector = "c"
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_scenario(text.encode(), "it", "it.toml")
    return [line.strip() for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("name", list_scenarios())
def test_every_scenario_that_comes_with_the_testbed_is_valid(name: str) -> None:
    assert load_scenario(name).name == name


def test_all_problems_are_reported_at_once_each_with_its_path() -> None:
    text = (
        SMALL
        + 'node = "m"\n[nodes.n]\n[[faults]]\nkind = "kil"\n[[faults]]\nkind = "kill"\ntarget = "agents.b"\nat_s = 1\n'
    )
    assert problems_of(text) == [
        "it.toml: 3 problems",
        "faults[0].kind: unknown kind of fault 'kil'; did you mean kill?",
        "agents.a.node: unknown part 'm'; there are n",
        "faults[1].target: unknown part 'b'; there are a",
    ]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('kind = "kill"\ntarget = "agents.a"', "faults[0].at_s: set either at_s or when"),
        ('kind = "kill"\ntarget = "agents.a"\nat_s = 1\ntimes = 2', "every_s: set both every_s and times, or neither"),
        ('kind = "kill"\ntarget = "devices.a"\nat_s = 1', "devices.a is not one of agents, nodes"),
        ('kind = "kill"\ntarget = "agents.a"\nat_s = 1\nfor = 2', "faults[0].for: unknown setting"),
        ('kind = "power_cut"\ntarget = "agents.a"\nat_s = 1', "agents.a has no disk of its own; set disk_megabytes"),
        ('kind = "link_down"\ntarget = "links.a.node"\nat_s = 1', "agents.a has no node"),
        ('kind = "link_down"\ntarget = "links.a.moon"\nat_s = 1', "with END one of node, broker, collector"),
        ('kind = "kill"\ntarget = "agents.a"\nwhen = "soon"', "agents.a acknowledged >= 500"),
        ('kind = "kill"\ntarget = "agents.a"\nwhen = "end"', "faults[0].when: kill cannot happen at the end"),
        ('kind = "cloned_card"\ntarget = "agents.a"\nat_s = 1\ncopy = "b"', "faults[0].copy: unknown part 'b'"),
        ('kind = "cloned_card"\ntarget = "agents.a"\nat_s = 1\ncopy = "a"', "an agent is copied once, to another one"),
        ('kind = "landing_loses_archives"\ntarget = "agents.a"\nat_s = 1\nwhich = "all"', "which: 'all' is not one of"),
    ],
)
def test_an_invalid_fault_is_reported(table: str, problem: str) -> None:
    assert any(problem in line for line in problems_of(f"{SMALL}[[faults]]\n{table}\n"))


def test_a_copy_is_one_of_one_agent_and_has_serial_devices() -> None:
    copies = "".join(
        f'[[faults]]\nkind = "cloned_card"\ntarget = "agents.{each}"\nat_s = 1\ncopy = "b"\n' for each in "ac"
    )
    agents = '[brokers.q]\n[agents.b]\ncollector = "c"\n[agents.c]\ncollector = "c"\n'
    device = '[devices.m]\nkind = "mqtt"\nbroker = "q"\nagent = "b"\n'
    found = problems_of(SMALL + agents + device + copies)
    assert "faults[0].copy: b is the copy of several agents" in found
    assert "faults[0].copy: only serial devices wait until b runs" in found


def test_receipts_come_from_a_collector() -> None:
    nodes = '[nodes.n]\n[agents.b]\ncollector = "c"\nnode = "n"\n'
    fault = '[[faults]]\nkind = "receipts_lost"\ntarget = "links.b.node"\nat_s = 1\n'
    assert "faults[0].target: receipts come by links.b.collector" in problems_of(SMALL + nodes + fault)


def test_a_fault_comes_at_moments_or_when_the_work_reaches_a_point() -> None:
    repeated = Kill(target="agents.a", at_s=2.0, every_s=3.0, times=3)
    assert isinstance(repeated.moment, Moment)
    assert repeated.moment.all_s() == [2.0, 5.0, 8.0]
    assert Kill(target="agents.a", when="collectors.c archives >= 4").moment == Progress("collectors.c", "archives", 4)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean power_cuts"):
        load_scenario("power_cut")


def test_every_kind_of_fault_has_its_targets() -> None:
    assert all(fault.targets for fault in FAULT_KINDS.values())


def test_a_seed_always_makes_the_same_scenario() -> None:
    assert random_scenario(5) == random_scenario(5)
    assert random_scenario(5) != random_scenario(6)


def test_the_manual_names_every_scenario_and_every_kind_of_fault() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "testbed.md").read_text(encoding="utf-8")
    assert [name for name in (*list_scenarios(), *FAULT_KINDS) if f"`{name}`" not in manual] == []


def test_the_example_in_the_manual_is_a_valid_scenario() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "testbed.md").read_text(encoding="utf-8")
    example = manual.partition("```toml\n")[2].partition("```")[0]
    assert len(parse_scenario(example.encode(), "example", "docs/testbed.md").faults) == 2


@pytest.mark.parametrize("minutes", ["nan", "-1", "0", "inf"])
def test_a_soak_of_no_length_is_refused(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["testbed", "soak", "--minutes", minutes])
    assert "--minutes: above 0" in capsys.readouterr().err
