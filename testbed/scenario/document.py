"""One TOML file → one scenario, checked completely before anything starts: all problems at once, by dotted path."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from runtime.errors import ConfigError
from runtime.settings import Between, Text, check_settings
from testbed.scenario.faults import (
    FAULT_KINDS,
    ClockRate,
    ClockSet,
    ClockStep,
    ClonedCard,
    End,
    Fault,
    FillDisk,
    LandingLosesArchives,
    PowerCut,
    Progress,
    ReceiptsLost,
)
from testbed.scenario.parts import NAME_FORM, Agent, Broker, Collector, Device, Expectation, Node, Tracker

SCENARIO_FOLDER: Final = Path(__file__).parents[1] / "scenarios"
SUFFIX: Final = ".toml"
MAX_SCENARIO_BYTES: Final = 1 << 18
MAX_FAULTS: Final = 1000
LINK_ENDS: Final = ("node", "broker", "collector")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The scenario file without its faults, which are checked by kind."""

    title: Text
    seconds: Annotated[float, Between(0.1, 86_400)]
    seed: int = 1
    trackers: dict[str, Tracker] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    brokers: dict[str, Broker] = field(default_factory=dict)
    collectors: dict[str, Collector] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    expect: Expectation = field(default_factory=Expectation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(_Document):
    name: str
    faults: tuple[Fault, ...] = ()

    @property
    def agents_with_clocks(self) -> frozenset[str]:
        """The agents that need a controlled clock."""
        named = {
            fault.target.split(".")[1] for fault in self.faults if isinstance(fault, ClockStep | ClockRate | ClockSet)
        }
        wrong = {
            name for name, agent in self.agents.items() if agent.clock != "synchronised" or agent.clock_behind_days
        }
        return frozenset(named | wrong)

    @property
    def copies(self) -> dict[str, str]:
        """The agents that are copies of another one, with its name."""
        return {fault.copy: fault.target.split(".")[1] for fault in self.faults if isinstance(fault, ClonedCard)}

    def devices_of(self, agent: str) -> dict[str, Device]:
        return {name: device for name, device in self.devices.items() if device.agent == agent}


def list_scenarios() -> dict[str, Path]:
    """The scenarios of the testbed, by name."""
    return {path.stem: path for path in sorted(SCENARIO_FOLDER.glob(f"*{SUFFIX}"))}


def load_scenario(name_or_path: str) -> Scenario:
    """Raises: ConfigError with every problem, OSError."""
    path = list_scenarios().get(name_or_path) or Path(name_or_path)
    if not path.exists() and path.suffix != SUFFIX:
        close = difflib.get_close_matches(name_or_path, list_scenarios(), n=1)
        hint = f"did you mean {close[0]}?" if close else "'headgate testbed list' shows them"
        raise ConfigError(f"unknown scenario {name_or_path!r:.60}; {hint}")
    with path.open("rb") as file:
        data = file.read(MAX_SCENARIO_BYTES + 1)
    if len(data) > MAX_SCENARIO_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_SCENARIO_BYTES} bytes")
    return parse_scenario(data, path.stem, str(path))


def parse_scenario(data: bytes, name: str, where: str) -> Scenario:
    """Raises: ConfigError with every problem."""
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from None
    problems: list[str] = []
    faults = _read_faults(table.pop("faults", []), problems)
    try:
        document = check_settings(_Document, table)
    except ConfigError as error:
        problems += error.problems
    else:
        problems += [*_name_problems(document), *_reference_problems(document), *_fault_problems(document, faults)]
        if not problems:
            values = {name: getattr(document, name) for name in _Document.__dataclass_fields__}
            return Scenario(name=name, faults=tuple(fault for _, fault in faults), **values)
    raise ConfigError(*problems, file=where)


Placed = tuple[str, Fault]  # with its dotted path


def _read_faults(given: object, problems: list[str]) -> list[Placed]:
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given) or len(given) > MAX_FAULTS:
        problems.append(f"faults: expected up to {MAX_FAULTS} tables [[faults]]")
        return []
    found = []
    for index, table in enumerate(given):
        path = f"faults[{index}]"
        try:
            found.append((path, _read_fault(dict(table), path)))
        except ConfigError as error:
            problems += error.problems
    return found


def _read_fault(table: dict[str, Any], path: str) -> Fault:
    kind = table.pop("kind", None)
    if not isinstance(kind, str) or kind not in FAULT_KINDS:
        raise ConfigError(f"{path}.kind: {_no_such('kind of fault', kind, FAULT_KINDS)}")
    return check_settings(FAULT_KINDS[kind], table, path)


def _name_problems(document: _Document) -> Iterator[str]:
    for section in ("trackers", "nodes", "brokers", "collectors", "agents", "devices"):
        for name in getattr(document, section):
            if problem := NAME_FORM.problem(name):
                yield f"{section}.{name}: {problem}"
    if not document.agents:
        yield "agents: missing; a scenario needs at least one"


def _reference_problems(document: _Document) -> Iterator[str]:
    """Problems of settings that must name a part of the scenario."""
    for name, node in document.nodes.items():
        yield from _must_name(f"nodes.{name}.tracker", node.tracker, document.trackers)
    for name, agent in document.agents.items():
        yield from _must_name(f"agents.{name}.collector", agent.collector, document.collectors)
        yield from _must_name(f"agents.{name}.node", agent.node, document.nodes)
        yield from _must_name(f"agents.{name}.broker", agent.broker, document.brokers)
    for name, device in document.devices.items():
        yield from _must_name(f"devices.{name}.agent", device.agent, document.agents)
        yield from _must_name(f"devices.{name}.broker", device.broker, document.brokers)
        if (device.kind == "mqtt") != (device.broker is not None):
            yield f"devices.{name}.broker: mqtt devices have one, others have none"


def _fault_problems(document: _Document, faults: list[Placed]) -> Iterator[str]:
    for path, fault in faults:
        yield from _target_problems(f"{path}.target", document, fault)
        yield from _moment_problems(f"{path}.when", document, fault)
        yield from _copy_problems(f"{path}.copy", document, fault, faults)


def _target_problems(path: str, document: _Document, fault: Fault) -> Iterator[str]:
    section, *names = fault.target.split(".")
    if section not in fault.targets:
        yield f"{path}: {fault.target} is not one of {', '.join(fault.targets)}"
    elif section == "links":
        yield from _link_problems(path, document, names)
    else:
        yield from _part_problems(path, document, section, names)
    agent = document.agents.get(names[0])
    if isinstance(fault, PowerCut | FillDisk) and agent is not None and agent.disk_megabytes is None:
        yield f"{path}: {fault.target} has no disk of its own; set disk_megabytes"
    if isinstance(fault, ReceiptsLost) and section == "links" and names[-1] != "collector":
        yield f"{path}: receipts come by links.{names[0]}.collector"


def _moment_problems(path: str, document: _Document, fault: Fault) -> Iterator[str]:
    moment = fault.moment
    if isinstance(moment, End) and not isinstance(fault, LandingLosesArchives):
        yield f"{path}: {fault.name()} cannot happen at the end"
    if isinstance(moment, Progress):
        part, *name = moment.part.split(".")
        yield from _part_problems(path, document, part, name)
        if part == "devices" and getattr(document.devices.get(name[0]), "kind", "") == "microcontroller":
            yield f"{path}: a microcontroller does not report how much it has produced"


def _copy_problems(path: str, document: _Document, fault: Fault, faults: list[Placed]) -> Iterator[str]:
    if not isinstance(fault, ClonedCard):
        return
    yield from _must_name(path, fault.copy, document.agents)
    if fault.target == f"agents.{fault.copy}" or fault.times > 1:
        yield f"{path}: an agent is copied once, to another one"
    if sum(isinstance(each, ClonedCard) and each.copy == fault.copy for _, each in faults) > 1:
        yield f"{path}: {fault.copy} is the copy of several agents"
    if any(device.agent == fault.copy and device.kind != "serial" for device in document.devices.values()):
        yield f"{path}: only serial devices wait until {fault.copy} runs"


def _part_problems(path: str, document: _Document, section: str, names: list[str]) -> Iterator[str]:
    parts = getattr(document, section)
    yield from _must_name(path, names[0] if len(names) == 1 else ".".join(names), parts)
    if names[0] in parts and getattr(parts[names[0]], "address", None) is not None:
        yield f"{path}: {section}.{names[0]} was not started by this scenario, so faults cannot be injected into it"


def _link_problems(path: str, document: _Document, names: list[str]) -> Iterator[str]:
    if len(names) != 2 or names[1] not in LINK_ENDS:
        yield f"{path}: expected links.AGENT.END, with END one of {', '.join(LINK_ENDS)}"
        return
    agent, end = names
    yield from _must_name(path, agent, document.agents)
    devices = [device for device in document.devices.values() if device.agent == agent and device.broker]
    if agent in document.agents and not getattr(document.agents[agent], end) and not (end == "broker" and devices):
        yield f"{path}: agents.{agent} has no {end}"


def _must_name(path: str, name: str | None, parts: Mapping[str, object]) -> Iterator[str]:
    if name is not None and name not in parts:
        yield f"{path}: {_no_such('part', name, parts)}"


def _no_such(what: str, name: object, known: Mapping[str, object]) -> str:
    if not isinstance(name, str):
        return f"missing; expected one of {', '.join(known)}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}"
    return f"unknown {what} {name!r:.40}; {hint}"
