"""The kinds of faults and when they happen. Each is a table `[[faults]]` with its `kind`.

| kind | target | what |
|---|---|---|
| `kill` | any process | kill -9; started again after `for_s` |
| `restart` | any process | SIGTERM; started again after `for_s`; `forget`: without what it kept |
| `power_cut` | an agent with a disk | the machine is dead at once and un-synced writes are gone; back after `for_s` |
| `fill_disk` | an agent with a disk | full but for `leave_kilobytes`; room again after `for_s` |
| `rot_journal` | an agent | `bits` of its segments flip; `lane`: of those of this lane, 0 being that of events |
| `rot_archive` | an agent, a collector | `bits` of one of its archives flip |
| `clock_step` | an agent | the clock is set by `by_s` |
| `clock_rate` | an agent | time goes `rate` times as fast for `for_s`: a little is drift, thousands are fast time |
| `clock_set` | an agent | the clock is right from now on, and known to be |
| `link_down` | a link | connections are cut and refused for `for_s` |
| `link_slow` | a link | `bytes_per_s` each way for `for_s` |
| `link_half_open` | a link | whatever is sent is swallowed, and nobody told, for `for_s` |
| `link_flap` | a link | cut again and again for `for_s`, every `period_s` |
| `unplug` | a serial device, a microcontroller | the port is gone for `for_s` |
| `garbage` | a serial device | `bytes` of noise on the line |
| `hostile` | a server | `connections` strangers send rubbish |

A target is a part (`agents.a`, `nodes.n`, `devices.d`) or a link (`links.a.node`, `.broker`, `.collector`).
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from drivers.errors import ConfigError
from runtime.settings import Between, Matching, Seconds

PROGRESS_FORM: Final = re.compile(
    r"(agents\.\w+ (?:acknowledged|archived|messages)|devices\.\w+ produced|collectors\.\w+ archives) >= (\d+)"
)
MAX_TIMES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Progress:
    """A point that the work itself reaches: `agents.a acknowledged >= 500`."""

    part: str
    figure: str
    at_least: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A point on the timeline, and the repetitions after it."""

    at_s: float
    every_s: float | None
    times: int

    def all_s(self) -> list[float]:
        return [self.at_s + number * (self.every_s or 0.0) for number in range(self.times)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The fields of every kind of fault."""

    target: Annotated[str, Matching(r"[a-z]+(\.[a-z][a-z0-9_]*){1,2}", "agents.a")]
    at_s: Annotated[float, Between(0, 86_400)] | None = None
    when: Annotated[str, Matching(PROGRESS_FORM.pattern, "agents.a acknowledged >= 500")] | None = None
    every_s: Seconds | None = None  # again and again, from at_s on
    times: Annotated[int, Between(1, MAX_TIMES)] = 1

    def __post_init__(self) -> None:
        if (self.at_s is None) == (self.when is None):
            raise ConfigError("at_s: set either at_s or when")
        if (self.every_s is None) != (self.times == 1):
            raise ConfigError("every_s: set both every_s and times, or neither")

    @property
    def moment(self) -> Moment | Progress:
        if self.when is None:
            return Moment(self.at_s or 0.0, self.every_s, self.times)
        match = PROGRESS_FORM.fullmatch(self.when)
        assert match is not None, "checked on construction"
        part, figure = match[1].split()
        return Progress(part, figure, int(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Fault):
    for_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Fault):
    for_s: Seconds = 0.5
    forget: bool = False  # nodes and brokers: begin anew with an empty store


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut(Fault):
    for_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk(Fault):
    for_s: Seconds = 2.0
    leave_kilobytes: Annotated[int, Between(0, 1 << 20)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RotJournal(Fault):
    bits: Annotated[int, Between(1, 1000)] = 3
    lane: Annotated[int, Between(0, 31)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotArchive(Fault):
    bits: Annotated[int, Between(1, 1000)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(Fault):
    by_s: Annotated[float, Between(-4e9, 4e9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRate(Fault):
    rate: Annotated[float, Between(0.001, 1e6)]
    for_s: Seconds = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSet(Fault):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDown(Fault):
    for_s: Seconds = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSlow(Fault):
    bytes_per_s: Annotated[int, Between(10, 10**9)] = 10_000
    for_s: Seconds = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHalfOpen(Fault):
    for_s: Seconds = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFlap(Fault):
    for_s: Seconds = 5.0
    period_s: Seconds = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplug(Fault):
    for_s: Seconds = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(Fault):
    bytes: Annotated[int, Between(1, 1 << 20)] = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile(Fault):
    connections: Annotated[int, Between(1, 1000)] = 20


FAULT_KINDS: Final[dict[str, type[Fault]]] = {
    "kill": Kill,
    "restart": Restart,
    "power_cut": PowerCut,
    "fill_disk": FillDisk,
    "rot_journal": RotJournal,
    "rot_archive": RotArchive,
    "clock_step": ClockStep,
    "clock_rate": ClockRate,
    "clock_set": ClockSet,
    "link_down": LinkDown,
    "link_slow": LinkSlow,
    "link_half_open": LinkHalfOpen,
    "link_flap": LinkFlap,
    "unplug": Unplug,
    "garbage": Garbage,
    "hostile": Hostile,
}

PARTS_THAT_RUN: Final = ("agents", "nodes", "trackers", "brokers", "collectors")
_LINKS: Final = ("links",)
TARGETS: Final[dict[type[Fault], tuple[str, ...]]] = {
    Kill: PARTS_THAT_RUN,
    Restart: PARTS_THAT_RUN,
    PowerCut: ("agents",),
    FillDisk: ("agents",),
    RotJournal: ("agents",),
    RotArchive: ("agents", "collectors"),
    ClockStep: ("agents",),
    ClockRate: ("agents",),
    ClockSet: ("agents",),
    LinkDown: _LINKS,
    LinkSlow: _LINKS,
    LinkHalfOpen: _LINKS,
    LinkFlap: _LINKS,
    Unplug: ("devices",),
    Garbage: ("devices",),
    Hostile: ("nodes", "trackers", "brokers", "collectors"),
}
