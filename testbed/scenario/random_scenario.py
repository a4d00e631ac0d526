"""Random scenarios: several faults at random times; the same seed gives the same scenario.

Faults that copy or replace a data directory and faults that destroy readings on the device are in different scenarios:
what is lost on one of two copies, or is known only to a journal that is replaced, is known exactly to no ledger.
"""

import random
from typing import Any, Final

from testbed.scenario import Scenario
from testbed.scenario.faults import END, FAULT_KINDS, Fault
from testbed.scenario.parts import Agent, Broker, Collector, Device, Expectation, Node, Tracker

SECONDS: Final = 20.0
MAX_FAULTS: Final = 14
FIRST_FAULT_S: Final = 3.0


def random_scenario(seed: int) -> Scenario:
    """Two or three agents, one or two nodes, a broker, a collector; every kind of fault may come at any moment."""
    chance = random.Random(seed)
    agents = {name: _agent(chance) for name in ("a", "b", "c")[: chance.randint(2, 3)]}
    devices = {f"d{number}": _device(chance, agent) for number, agent in enumerate(agents)}
    targets = _targets(agents, devices)
    kinds = _without(chance.choice((COPYING, DESTROYING)))
    faults = [_fault(chance, kinds, targets) for _ in range(chance.randint(4, MAX_FAULTS))]
    return Scenario(
        name=f"soak_{seed}",
        title="random faults of every kind",
        seconds=SECONDS,
        seed=seed,
        trackers={"t": Tracker()},
        nodes={"n": Node(tracker="t"), "m": Node(tracker="t")},
        brokers={"q": Broker()},
        collectors={"c": Collector()},
        agents=agents,
        devices=devices,
        faults=tuple(faults),
        expect=Expectation(at_least=10, losses="explained", missing="any"),
    )


def _agent(chance: random.Random) -> Agent:
    return Agent(
        collector="c",
        node=chance.choice(("n", "m")),
        broker="q",
        encryption=chance.choice(("none", "aes")),
        rotate_after_messages=chance.choice((None, 20, 200)),
        disk_megabytes=48,
        journal_megabytes=8,
        commit_interval_s=chance.choice((0.02, 0.1, 0.5)),
        archive_every_s=chance.choice((0.5, 1.0, 4.0)),
        clock=chance.choice(("synchronised", "synchronised", "synchronised", "1970")),
    )


def _device(chance: random.Random, agent: str) -> Device:
    if chance.random() < 0.3:
        return Device(agent=agent, kind="mqtt", broker="q", rate_hz=chance.choice((5, 50)))
    return Device(agent=agent, rate_hz=chance.choice((10, 100, 400)))


# Left out, because the loss would not be the agent's: a killed broker loses what it acknowledged.
_KINDS: Final = {
    **{kind: fault.targets for kind, fault in FAULT_KINDS.items()},
    "kill": ("agents", "nodes", "trackers", "collectors"),
    "damage_archive": ("agents",),
    "receipts_lost": ("collectors", "collector_links"),
}
COPYING: Final = frozenset({"cloned_card", "restored_backup"})
DESTROYING: Final = frozenset(
    {"kill", "power_cut", "fill_disk", "damage_journal", "damage_archive", "collector_restored_from_backup"}
)


def _without(kinds: frozenset[str]) -> dict[str, tuple[str, ...]]:
    left_out = kinds | {"cloned_card"}  # which needs an agent of its own: it has a scenario
    return {kind: targets for kind, targets in _KINDS.items() if kind not in left_out}


def _targets(agents: dict[str, Agent], devices: dict[str, Device]) -> dict[str, list[str]]:
    return {
        "agents": [f"agents.{name}" for name in agents],
        "nodes": ["nodes.n", "nodes.m"],
        "trackers": ["trackers.t"],
        "brokers": ["brokers.q"],
        "collectors": ["collectors.c"],
        "links": [f"links.{name}.{end}" for name in agents for end in ("node", "broker", "collector")],
        "collector_links": [f"links.{name}.collector" for name in agents],
        "devices": [f"devices.{name}" for name, device in devices.items() if device.kind == "serial"],
    }


def _fault(chance: random.Random, kinds: dict[str, tuple[str, ...]], targets: dict[str, list[str]]) -> Fault:
    kind = chance.choice([kind for kind, sections in kinds.items() if any(targets[each] for each in sections)])
    section = chance.choice([each for each in kinds[kind] if targets[each]])
    settings: dict[str, Any] = {
        "target": chance.choice(targets[section]),
        "at_s": round(chance.uniform(FIRST_FAULT_S, SECONDS - 2), 2),
    }
    if kind == "landing_loses_archives":
        settings |= {"which": chance.choice(("first", "middle", "last")), "at_s": None, "when": END}
    fields = FAULT_KINDS[kind].__dataclass_fields__
    if "for_s" in fields:
        settings["for_s"] = round(chance.uniform(0.2, 4), 2)
    if "by_s" in fields:
        settings["by_s"] = chance.choice((-86_400.0, -100.0, -0.5, 0.5, 100.0))
    if "rate" in fields:
        settings["rate"] = chance.choice((0.9, 0.999, 1.001, 1.1, 5.0))
    return FAULT_KINDS[kind](**settings)
