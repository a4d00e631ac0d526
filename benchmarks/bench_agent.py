"""The agent against its peers: the same MQTT readings from one mosquitto to another, at QoS 1 all the way.

All of them run at once, each with its own topics, and are loaded in turns, so that other work on the machine affects
all alike. Headgate signs, chains and stores every reading durably before it acknowledges it; the others do not.
Messages at the destination are decoded and counted by the numbers in their readings.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from benchmarks import process_tree
from benchmarks.harness import Figure, NotTaken, Result
from benchmarks.peers.bridge import MosquittoBridge
from benchmarks.peers.broker import Broker
from benchmarks.peers.forwarder import Forwarder, Missing
from benchmarks.peers.headgate import Headgate, HeadgateOverBoth
from benchmarks.peers.node_red import NodeRed
from benchmarks.peers.thingsboard import ThingsBoardGateway, server_answer
from benchmarks.peers.traffic import Arrival, Sink, Source
from benchmarks.programs import MOSQUITTO, measure_with

STARTS = 8
ROUNDS = 3
ROUND_MESSAGES = 10_000
OUTAGE_MESSAGES = 20_000
KILL_MESSAGES = 10_000
STALL_S = 12.0  # without an arrival: there will be no more
QUIET_S = 0.4
POLL_S = 0.02
START_TIMEOUT_S = 30.0
START_POLL_S = 0.002

FORWARDERS: tuple[type[Forwarder], ...] = (Headgate, ThingsBoardGateway, NodeRed, MosquittoBridge)
F = TypeVar("F", bound=Forwarder)


@dataclass(slots=True)
class Account:
    """The measurements of one forwarder."""

    start_s: list[float] = field(default_factory=list)
    first_signed_s: list[float] = field(default_factory=list)  # Headgate only; events count, too
    start_cpu_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    written_bytes: list[float] = field(default_factory=list)
    rss_mb: float = 0.0
    resume_s: float = float("inf")
    drained_per_s: float = 0.0
    lost_in_outage: int = 0
    duplicated_in_outage: int = 0
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


CPU_LIMITS: Final = {NodeRed.name: 1.0, ThingsBoardGateway.name: 0.2}
FIRST_SIGNED: Final = "agent: exec to the first acknowledged signed message"
PEAK_RSS: Final = "agent: peak RSS under load, MQTT and websocket"
DRAINED: Final = "agent: backlog drained"
RESUMES: Final = "agent: resumes after the link's return"
LOST: Final = "agent: lost in the outage and over kill -9"
DUPLICATED: Final = "agent: duplicated in the outage, by id"
OF_EACH: Final[tuple[tuple[str, str, Callable[[Account], float]], ...]] = (
    ("messages per second", "/s", lambda account: account.median("per_s")),
    ("CPU per message", "µs", lambda account: account.median("cpu_us")),
    ("peak RSS under load", "MB", lambda account: account.rss_mb),
    ("exec to the first reading at the destination", "s", lambda account: account.best("start_s")),
    ("bytes written per message", "B", lambda account: account.median("written_bytes")),
    ("lost in an outage of the destination broker", "of 20,000", lambda account: account.lost_in_outage),
    ("duplicated in that outage", "", lambda account: account.duplicated_in_outage),
    ("resumed after its return", "s", lambda account: account.resume_s),
    ("backlog drained", "/s", lambda account: account.drained_per_s),
    ("lost over a kill -9", "of 10,000", lambda account: account.lost_over_kill),
    ("duplicated over that kill", "", lambda account: account.duplicated_over_kill),
)


def measure() -> Iterator[Result]:
    return measure_with([MOSQUITTO], _all_names(), _measure)


def _measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-agent-") as directory, _bench(Path(directory)) as bench:
        forwarders, absent = _set_up(bench, Path(directory))
        accounts = _compare(bench, forwarders)
        both_mb = _rss_over_both(bench, Path(directory))
    yield from _figures(accounts, absent, both_mb)


@contextmanager
def _bench(root: Path) -> "Iterator[Bench]":
    with ExitStack() as stack:
        ends = [Broker(root / name) for name in ("origin", "destination")]
        for broker in ends:
            broker.start()
            stack.callback(broker.stop)
        source, sink = Source(ends[0].port), Sink(ends[1].port, server_answer)
        stack.callback(source.close)
        stack.callback(sink.close)
        yield Bench(source, sink, ends[0], ends[1])


def _compare(bench: "Bench", forwarders: Sequence[Forwarder]) -> dict[str, Account]:
    accounts = {forwarder.name: Account() for forwarder in forwarders}
    with ExitStack() as stack:
        for forwarder in forwarders:
            stack.callback(forwarder.stop)
        tests = (
            (Bench.start, STARTS),
            (Bench.warm_up, 1),
            (Bench.load, ROUNDS),
            (Bench.outage, 1),
            (Bench.kill, 1),
        )
        for test, times in tests:
            for _ in range(times):
                for forwarder in forwarders:
                    print(f"  {test.__name__}: {forwarder.name}", file=sys.stderr)
                    test(bench, forwarder, accounts[forwarder.name])
    return accounts


def _set_up(bench: "Bench", root: Path) -> tuple[list[Forwarder], dict[str, str]]:
    """The forwarders that can be measured, and the reasons why others cannot, by name."""
    forwarders, absent = list[Forwarder](), dict[str, str]()
    for kind in FORWARDERS:
        try:
            forwarders.append(bench.add(kind, root))
        except Missing as reason:
            absent[kind.name] = str(reason)
    return forwarders, absent


def _rss_over_both(bench: "Bench", root: Path) -> float:
    forwarder = bench.add(HeadgateOverBoth, root)
    account = Account()
    with forwarder.node():
        try:
            bench.start(forwarder, account)
            bench.load(forwarder, account)
        finally:
            forwarder.stop()
    return account.rss_mb


def _figures(accounts: Mapping[str, Account], absent: Mapping[str, str], both_mb: float) -> Iterator[Result]:
    """`absent` are the peers that could not be installed, each with the reason."""
    ours, board = accounts[Headgate.name], accounts.get(ThingsBoardGateway.name)
    for peer, at_most in CPU_LIMITS.items():
        if peer in accounts:
            value = ours.median("cpu_us") / accounts[peer].median("cpu_us")
            yield Figure(name=_cpu_against(peer), value=value, unit="×", at_most=at_most)
    yield Figure(
        name=FIRST_SIGNED,
        value=ours.best("first_signed_s"),
        unit="s",
        at_most=0.3,
        note=f"best of {STARTS}; {ours.best('start_cpu_s'):.2f} s of CPU"
        + (f"; thingsboard's first reading: {board.best('start_s'):.2f} s" if board else ""),
    )
    yield Figure(name=PEAK_RSS, value=both_mb, unit="MB", at_most=35)
    yield Figure(name=DRAINED, value=ours.drained_per_s, unit="/s", at_least=30_000, note="after an outage")
    yield Figure(name=RESUMES, value=ours.resume_s, unit="s", at_most=1, note="20,000 wait")
    yield Figure(name=LOST, value=ours.lost, unit="", at_most=0)
    yield Figure(name=DUPLICATED, value=ours.duplicated_in_outage, unit="", at_most=0)
    for name, account in accounts.items():
        yield from (Figure(name=f"{name}: {what}", value=of(account), unit=unit) for what, unit, of in OF_EACH)
    for name, reason in absent.items():
        yield from (NotTaken(name=figure, reason=reason) for figure in _names_of(name))


def _all_names() -> list[str]:
    ours = [FIRST_SIGNED, PEAK_RSS, DRAINED, RESUMES, LOST, DUPLICATED]
    return ours + [name for forwarder in FORWARDERS for name in _names_of(forwarder.name)]


def _names_of(forwarder: str) -> list[str]:
    against = [_cpu_against(forwarder)] if forwarder in CPU_LIMITS else []
    return against + [f"{forwarder}: {what}" for what, _, _ in OF_EACH]


def _cpu_against(peer: str) -> str:
    return f"agent: CPU per message, × {peer}"


class Bench:
    """Two brokers, and the forwarders between them."""

    def __init__(self, source: Source, sink: Sink, origin: Broker, destination: Broker) -> None:
        self._source = source
        self._sink = sink
        self._origin = origin
        self._destination = destination

    def add(self, kind: type[F], root: Path) -> F:
        return kind(root / kind.name, self._origin.port, self._destination.port)

    def start(self, forwarder: Forwarder, account: Account) -> None:
        """Measure from exec to the first reading at the destination, under constant load."""
        if forwarder.process is not None:
            wait_until_quiet(forwarder)
            forwarder.stop()
        began, began_s = len(self._sink.arrivals), time.monotonic()
        forwarder.start()
        while (first := _first(self._sink.arrivals[began:], forwarder.numbers_in)) is None:
            assert time.monotonic() < began_s + START_TIMEOUT_S, f"{forwarder.name} forwards nothing"
            self._source.publish(forwarder.name, 1)
            time.sleep(START_POLL_S)
        account.start_cpu_s.append(process_tree.cpu_s(forwarder.pid))
        account.start_s.append(first.at_s - began_s)
        if signed := _first(self._sink.arrivals[began:], lambda arrival: arrival.topic.startswith("0x")):
            account.first_signed_s.append(signed.at_s - began_s)
        wait_until_quiet(forwarder)

    def warm_up(self, forwarder: Forwarder, _account: Account) -> None:
        """Load it once before measuring, for just-in-time compilers such as Node-RED's."""
        self.load(forwarder, Account())

    def load(self, forwarder: Forwarder, account: Account) -> None:
        began, before_cpu_s = len(self._sink.arrivals), process_tree.cpu_s(forwarder.pid)
        before_bytes, began_s = process_tree.written_bytes(forwarder.pid), time.monotonic()
        numbers = self._source.publish(forwarder.name, ROUND_MESSAGES)
        last_s = self._await(forwarder, began, numbers)
        wait_until_quiet(forwarder)
        count = len(numbers) - self._lost_and_duplicated(forwarder, began, numbers)[0]
        assert count, f"{forwarder.name} delivered none of {len(numbers)} readings"
        account.per_s.append(count / (last_s - began_s))
        account.cpu_us.append((process_tree.cpu_s(forwarder.pid) - before_cpu_s) / count * 1e6)
        account.written_bytes.append((process_tree.written_bytes(forwarder.pid) - before_bytes) / count)
        account.rss_mb = process_tree.peak_rss_mb(forwarder.pid)

    def outage(self, forwarder: Forwarder, account: Account) -> None:
        """Stop the destination broker, publish readings, and start it again."""
        self._destination.stop()
        began = len(self._sink.arrivals)
        numbers = self._source.publish(forwarder.name, OUTAGE_MESSAGES)
        wait_until_quiet(forwarder)
        self._destination.start()
        back_s = time.monotonic()
        last_s = self._await(forwarder, began, numbers)
        first = _first(self._sink.arrivals[began:], forwarder.numbers_in)
        if first is not None:
            account.resume_s = first.at_s - back_s
            account.drained_per_s = OUTAGE_MESSAGES / max(last_s - first.at_s, 1e-3)
        account.lost_in_outage, account.duplicated_in_outage = self._lost_and_duplicated(forwarder, began, numbers)

    def kill(self, forwarder: Forwarder, account: Account) -> None:
        began = len(self._sink.arrivals)
        numbers = self._source.publish(forwarder.name, KILL_MESSAGES // 2)
        forwarder.kill()
        numbers += self._source.publish(forwarder.name, KILL_MESSAGES // 2)
        forwarder.start()
        self._await(forwarder, began, numbers)
        account.lost_over_kill, account.duplicated_over_kill = self._lost_and_duplicated(forwarder, began, numbers)

    def _await(self, forwarder: Forwarder, began: int, numbers: Sequence[int]) -> float:
        """The time at which the last of the numbers arrived, or the last that did arrive."""
        missing = set(numbers)
        seen, last_s, moved_s = began, time.monotonic(), time.monotonic()
        while missing and time.monotonic() - moved_s < STALL_S:
            time.sleep(POLL_S)
            arrivals = self._sink.arrivals[seen:]
            seen += len(arrivals)
            for arrival in arrivals:
                found = missing.intersection(forwarder.numbers_in(arrival))
                if found:
                    missing -= found
                    last_s, moved_s = arrival.at_s, time.monotonic()
        return last_s

    def _lost_and_duplicated(self, forwarder: Forwarder, began: int, numbers: Sequence[int]) -> tuple[int, int]:
        """Counts after removing duplicates by the ids of the forwarder, if it has any."""
        identities = [each for arrival in self._sink.arrivals[began:] for each in forwarder.identities_in(arrival)]
        wanted = set(numbers)
        found = [number for _, number in (dict.fromkeys(identities) if forwarder.has_ids else identities)]
        arrived = [number for number in found if number in wanted]
        return len(wanted - set(arrived)), len(arrived) - len(set(arrived))


def _first(arrivals: Sequence[Arrival], is_wanted: Callable[[Arrival], object]) -> Arrival | None:
    return next((arrival for arrival in arrivals if is_wanted(arrival)), None)


def wait_until_quiet(forwarder: Forwarder) -> None:
    """Wait until it uses almost no CPU."""
    busy_s = float("inf")
    while busy_s > QUIET_S / 10:
        before_s = process_tree.cpu_s(forwarder.pid)
        time.sleep(QUIET_S)
        busy_s = process_tree.cpu_s(forwarder.pid) - before_s
