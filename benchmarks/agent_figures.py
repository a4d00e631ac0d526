"""What is measured of each forwarder, and the figures made of it: against limits, and against each other."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from benchmarks.harness import Figure, NotTaken, Result
from benchmarks.peers.headgate import Headgate, HeadgateWithoutPacks
from benchmarks.peers.node_red import NodeRed
from benchmarks.peers.thingsboard import ThingsBoardGateway

__all__ = ["AGAINST", "OF_EACH", "Account", "all_names", "figures"]


@dataclass(slots=True)
class Account:
    """The measurements of one forwarder."""

    start_s: list[float] = field(default_factory=list)
    first_signed_s: list[float] = field(default_factory=list)  # Headgate only; events count, too
    start_cpu_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    sent_bytes: list[float] = field(default_factory=list)
    written_bytes: list[float] = field(default_factory=list)
    rss_mb: float = 0.0
    resume_s: list[float] = field(default_factory=list)
    drained_per_s: list[float] = field(default_factory=list)
    lost_in_outage: int = 0  # in the worst of its outages
    duplicated_in_outage: int = 0  # likewise
    lost_over_kill: int = 0
    duplicated_over_kill: int = 0

    @property
    def lost(self) -> int:
        return self.lost_in_outage + self.lost_over_kill

    def best(self, name: str) -> float:
        """The minimum, for start times: other work on the machine only adds to them."""
        return float(min(getattr(self, name)))

    def median(self, name: str) -> float:
        return float(statistics.median(getattr(self, name)))


OfAccount = Callable[[Account], float]


class OfEach(NamedTuple):
    """A figure of every forwarder."""

    what: str
    unit: str
    value: OfAccount


class Against(NamedTuple):
    """A figure of Headgate by that of another forwarder."""

    what: str
    other: str
    value: OfAccount
    at_least: float | None = None
    at_most: float | None = None

    @property
    def name(self) -> str:
        return f"agent: {self.what}, × {self.other}"


def _readings_per_s(account: Account) -> float:
    return account.median("per_s")


def _cpu_us(account: Account) -> float:
    return account.median("cpu_us")


def _sent_bytes(account: Account) -> float:
    return account.median("sent_bytes")


def _written_bytes(account: Account) -> float:
    return account.median("written_bytes")


def _drained_per_s(account: Account) -> float:
    return account.median("drained_per_s")


def _resume_s(account: Account) -> float:
    return account.median("resume_s")


AGAINST: Final = (
    Against("CPU per reading", NodeRed.name, _cpu_us, at_most=1),
    Against("CPU per reading", ThingsBoardGateway.name, _cpu_us, at_most=0.1),
    Against("readings per second", ThingsBoardGateway.name, _readings_per_s, at_least=5),
    Against("bytes sent per reading", HeadgateWithoutPacks.name, _sent_bytes, at_most=0.6),
    Against("bytes written per reading", HeadgateWithoutPacks.name, _written_bytes, at_most=0.6),
    Against("backlog drained", HeadgateWithoutPacks.name, _drained_per_s, at_least=2),
)
OF_EACH: Final = (
    OfEach("readings per second", "/s", _readings_per_s),
    OfEach("CPU per reading", "µs", _cpu_us),
    OfEach("peak RSS under load", "MB", lambda account: account.rss_mb),
    OfEach("exec to the first reading at the destination", "s", lambda account: account.best("start_s")),
    OfEach("bytes sent per reading", "B", _sent_bytes),
    OfEach("bytes written per reading", "B", _written_bytes),
    OfEach("lost in an outage of the destination broker", "of 20,000", lambda account: account.lost_in_outage),
    OfEach("duplicated in that outage", "", lambda account: account.duplicated_in_outage),
    OfEach("resumed after its return", "s", _resume_s),
    OfEach("backlog drained", "/s", _drained_per_s),
    OfEach("lost over a kill -9", "of 10,000", lambda account: account.lost_over_kill),
    OfEach("duplicated over that kill", "", lambda account: account.duplicated_over_kill),
)
FIRST_SIGNED: Final = "agent: exec to the first acknowledged signed message"
PEAK_RSS: Final = "agent: peak RSS under load, MQTT and websocket"
PEAK_RSS_BEFORE_PACKS: Final = "agent: that peak RSS, × before packs"
RSS_MB_BEFORE_PACKS: Final = 44.2  # by this benchmark, of the last version that signed each reading by itself
DRAINED: Final = "agent: backlog drained"
RESUMES: Final = "agent: resumes after the link's return"
LOST: Final = "agent: lost in the outage and over kill -9"
DUPLICATED: Final = "agent: duplicated in the outage, by id"
OURS: Final = (FIRST_SIGNED, PEAK_RSS, PEAK_RSS_BEFORE_PACKS, DRAINED, RESUMES, LOST, DUPLICATED)


def figures(accounts: Mapping[str, Account], absent: Mapping[str, str], both_mb: float) -> Iterator[Result]:
    """`absent` are the peers that could not be installed, each with the reason.

    `both_mb`: the peak memory of Headgate with both transports."""
    ours = accounts[Headgate.name]
    yield from (_against(each, ours, accounts[each.other]) for each in AGAINST if each.other in accounts)
    yield _first_signed(ours, accounts.get(ThingsBoardGateway.name))
    yield Figure(name=PEAK_RSS, value=both_mb, unit="MB", at_most=35)
    rss_note = f"{RSS_MB_BEFORE_PACKS} MB"
    yield Figure(name=PEAK_RSS_BEFORE_PACKS, value=both_mb / RSS_MB_BEFORE_PACKS, unit="×", at_most=1, note=rss_note)
    yield Figure(name=DRAINED, value=_drained_per_s(ours), unit="/s", at_least=30_000, note="after an outage")
    yield Figure(name=RESUMES, value=_resume_s(ours), unit="s", at_most=1, note="20,000 wait")
    yield Figure(name=LOST, value=ours.lost, unit="", at_most=0)
    yield Figure(name=DUPLICATED, value=ours.duplicated_in_outage, unit="", at_most=0)
    for name, account in accounts.items():
        yield from (Figure(name=f"{name}: {what}", value=of(account), unit=unit) for what, unit, of in OF_EACH)
    for name, reason in absent.items():
        yield from (NotTaken(name=figure, reason=reason) for figure in _names_of(name))


def all_names(forwarders: Sequence[str]) -> list[str]:
    return [*OURS, *(figure for forwarder in forwarders for figure in _names_of(forwarder))]


def _names_of(forwarder: str) -> list[str]:
    against = [each.name for each in AGAINST if each.other == forwarder]
    return against + [f"{forwarder}: {each.what}" for each in OF_EACH]


def _against(each: Against, ours: Account, other: Account) -> Figure:
    value = each.value(ours) / each.value(other)
    return Figure(name=each.name, value=value, unit="×", at_least=each.at_least, at_most=each.at_most)


def _first_signed(ours: Account, board: Account | None) -> Figure:
    note = f"best of {len(ours.first_signed_s)}; {ours.best('start_cpu_s'):.2f} s of CPU"
    if board is not None:
        note += f"; thingsboard's first reading: {board.best('start_s'):.2f} s"
    return Figure(name=FIRST_SIGNED, value=ours.best("first_signed_s"), unit="s", at_most=0.3, note=note)
