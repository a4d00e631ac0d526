"""The kinds of faults and when they happen. Each is a table `[[faults]]` with its `kind`.

| kind | target | what |
|---|---|---|
| `kill` | any process | kill -9; started again after `for_s` |
| `restart` | any process | SIGTERM; started again after `for_s`; `lose_state`: with an empty store or data directory |
| `power_cut` | an agent with a disk | the machine stops at once, unsynced writes are lost; on again after `for_s` |
| `fill_disk` | an agent with a disk | full except for `leave_kilobytes`; space again after `for_s` |
| `damage_journal` | an agent | `bits` of its segments flip; `lane`: only of this lane (0: events) |
| `damage_archive` | an agent, a collector | `bits` of one of its archives flip |
| `landing_loses_archives` | an agent | archives of it that have a receipt are deleted from the landing area |
| `receipts_lost` | a collector, a link to one | all are deleted; or `receipts` of them do not reach the agent |
| `cloned_card` | an agent | its data directory is copied to the agent `copy`, and both run |
| `restored_backup` | an agent | after `archives` more receipts, a copy of the data directory is put back |
| `collector_restored_from_backup` | a collector | the same, with landing area and state |
| `clock_step` | an agent | the clock is changed by `by_s` |
| `clock_rate` | an agent | the clock runs `rate` times as fast for `for_s` |
| `clock_set` | an agent | the clock is set and synchronised |
| `link_down` | a link | connections are cut and refused for `for_s` |
| `link_slow` | a link | `bytes_per_s` each way for `for_s` |
| `link_half_open` | a link | everything sent is discarded for `for_s`, and the connections stay open |
| `link_flap` | a link | cut every `period_s` for `for_s` |
| `unplug` | a serial device, a microcontroller | the port is gone for `for_s` |
| `garbage` | a serial device | `bytes` of noise on the line |
| `hostile` | a server | `connections` clients send invalid data |

A target is a part (`agents.a`, `nodes.n`, `devices.d`) or a link (`links.a.node`, `.broker`, `.collector`).
Agents and collectors are stopped in order before their files are copied or replaced. What a fault removes is moved
aside, so that the oracle knows it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from drivers.errors import ConfigError
from runtime.settings import Between, Matching, Seconds
from testbed.scenario.parts import Name

PROGRESS_FORM: Final = re.compile(
    r"(agents\.\w+ (?:acknowledged|archived|readings)|devices\.\w+ produced|collectors\.\w+ archives) >= (\d+)"
)
END: Final = "end"
MAX_TIMES: Final = 10_000
PROCESSES: Final = ("agents", "nodes", "trackers", "collectors", "brokers")
AGENTS: Final = ("agents",)
LINKS: Final = ("links",)
DEVICES: Final = ("devices",)


@dataclass(frozen=True, slots=True)
class Progress:
    """A time given by the progress of a part: `agents.a acknowledged >= 500`."""

    part: str
    figure: str
    at_least: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of the scenario, and its repetitions."""

    at_s: float
    every_s: float | None
    times: int

    def all_s(self) -> list[float]:
        return [self.at_s + number * (self.every_s or 0.0) for number in range(self.times)]


@dataclass(frozen=True, slots=True)
class End:
    """When everything is shipped and the agents have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The fields of every kind of fault."""

    targets: ClassVar[tuple[str, ...]]  # the sections of a scenario that have parts with this fault
    target: Annotated[str, Matching(r"[a-z]+(\.[a-z][a-z0-9_]*){1,2}", "agents.a")]
    at_s: Annotated[float, Between(0, 86_400)] | None = None
    when: Annotated[str, Matching(f"{PROGRESS_FORM.pattern}|{END}", "agents.a acknowledged >= 500")] | None = None
    every_s: Seconds | None = None  # repeated, from at_s on
    times: Annotated[int, Between(1, MAX_TIMES)] = 1

    def __post_init__(self) -> None:
        if (self.at_s is None) == (self.when is None):
            raise ConfigError("at_s: set either at_s or when")
        if (self.every_s is None) != (self.times == 1):
            raise ConfigError("every_s: set both every_s and times, or neither")

    @classmethod
    def name(cls) -> str:
        """`PowerCut` → `power cut`."""
        return re.sub("(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()

    @property
    def moment(self) -> Moment | Progress | End:
        if self.when is None:
            return Moment(self.at_s or 0.0, self.every_s, self.times)
        if self.when == END:
            return End()
        match = PROGRESS_FORM.fullmatch(self.when)
        assert match is not None, "checked on construction"
        part, figure = match[1].split()
        return Progress(part, figure, int(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Fault):
    targets: ClassVar = PROCESSES
    for_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Fault):
    targets: ClassVar = PROCESSES
    for_s: Seconds = 0.5
    lose_state: bool = False  # nodes, brokers, agents: start again with an empty store or data directory


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut(Fault):
    targets: ClassVar = AGENTS
    for_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk(Fault):
    targets: ClassVar = AGENTS
    for_s: Seconds = 2.0
    leave_kilobytes: Annotated[int, Between(0, 1 << 20)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageJournal(Fault):
    targets: ClassVar = AGENTS
    bits: Annotated[int, Between(1, 1000)] = 3
    lane: Annotated[int, Between(0, 31)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageArchive(Fault):
    targets: ClassVar = ("agents", "collectors")
    bits: Annotated[int, Between(1, 1000)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingLosesArchives(Fault):
    targets: ClassVar = AGENTS
    which: Literal["first", "middle", "last", "process_run"] = "middle"  # process_run: all with messages of one


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsLost(Fault):
    targets: ClassVar = ("collectors", "links")
    receipts: Annotated[int, Between(1, 1000)] = 3  # of a link: the connection is cut before each of these


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonedCard(Fault):
    targets: ClassVar = AGENTS
    copy: Name  # an agent that starts with this fault, and has the keys of the target


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredBackup(Fault):
    targets: ClassVar = AGENTS
    archives: Annotated[int, Between(1, 1000)] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorRestoredFromBackup(Fault):
    targets: ClassVar = ("collectors",)
    archives: Annotated[int, Between(1, 1000)] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(Fault):
    targets: ClassVar = AGENTS
    by_s: Annotated[float, Between(-4e9, 4e9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRate(Fault):
    targets: ClassVar = AGENTS
    rate: Annotated[float, Between(0.001, 1e6)]
    for_s: Seconds = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet(Fault):
    targets: ClassVar = AGENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDown(Fault):
    targets: ClassVar = LINKS
    for_s: Seconds = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSlow(Fault):
    targets: ClassVar = LINKS
    bytes_per_s: Annotated[int, Between(10, 10**9)] = 10_000
    for_s: Seconds = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHalfOpen(Fault):
    targets: ClassVar = LINKS
    for_s: Seconds = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFlap(Fault):
    targets: ClassVar = LINKS
    for_s: Seconds = 5.0
    period_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplug(Fault):
    targets: ClassVar = DEVICES
    for_s: Seconds = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(Fault):
    targets: ClassVar = DEVICES
    bytes: Annotated[int, Between(1, 1 << 20)] = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile(Fault):
    targets: ClassVar = ("nodes", "trackers", "brokers", "collectors")
    connections: Annotated[int, Between(1, 1000)] = 20


KINDS: Final = (
    *(Kill, Restart, PowerCut, FillDisk, DamageJournal, DamageArchive, LandingLosesArchives, ReceiptsLost),
    *(ClonedCard, RestoredBackup, CollectorRestoredFromBackup, ClockStep, ClockRate, ClockSet),
    *(LinkDown, LinkSlow, LinkHalfOpen, LinkFlap, Unplug, Garbage, Hostile),
)
FAULT_KINDS: Final[dict[str, type[Fault]]] = {kind.name().replace(" ", "_"): kind for kind in KINDS}
