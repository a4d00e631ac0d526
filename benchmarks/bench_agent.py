"""The agent against its peers: the same MQTT readings from one mosquitto to another, at QoS 1 all the way.

All of them run at once, each with its own topics, and are loaded in turns, so that other work on the machine affects
all alike. Headgate signs, chains and stores every reading durably before it acknowledges it; the others do not.
Messages at the destination are decoded and counted by the numbers in their readings.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks import process_tree
from benchmarks.agent_figures import Account, all_names, figures
from benchmarks.harness import Result
from benchmarks.peers.bridge import MosquittoBridge
from benchmarks.peers.broker import Broker
from benchmarks.peers.forwarder import Forwarder, Missing
from benchmarks.peers.headgate import Headgate, HeadgateOverBoth, HeadgateWithoutPacks, is_signed
from benchmarks.peers.node_red import NodeRed
from benchmarks.peers.thingsboard import ThingsBoardGateway, server_answer
from benchmarks.peers.traffic import Arrival, Sink, Source
from benchmarks.programs import MOSQUITTO, measure_with

STARTS = 8
ROUNDS = 3
OUR_OUTAGES = 5
OUTAGE_READINGS = 20_000
KILL_READINGS = 10_000
STALL_S = 12.0  # without an arrival: there will be no more
QUIET_S = 0.4
COMMIT_S = 1.2  # the last readings may wait this long for a commit
POLL_S = 0.02
START_TIMEOUT_S = 30.0
START_POLL_S = 0.002

FORWARDERS: tuple[type[Forwarder], ...] = (Headgate, HeadgateWithoutPacks, ThingsBoardGateway, NodeRed, MosquittoBridge)
F = TypeVar("F", bound=Forwarder)


def measure() -> Iterator[Result]:
    return measure_with([MOSQUITTO], all_names([each.name for each in FORWARDERS]), _measure)


def _measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-agent-") as directory, _bench(Path(directory)) as bench:
        forwarders, absent = _set_up(bench, Path(directory))
        accounts = _compare(bench, forwarders)
        both_mb = _rss_over_both(bench, Path(directory))
    yield from figures(accounts, absent, both_mb)


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
            (Bench.outage_of_ours, OUR_OUTAGES - 1),
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
        if signed := _first(self._sink.arrivals[began:], lambda arrival: is_signed(arrival, forwarder.name)):
            account.first_signed_s.append(signed.at_s - began_s)
        wait_until_quiet(forwarder)

    def warm_up(self, forwarder: Forwarder, _account: Account) -> None:
        """Load it once before measuring, for just-in-time compilers such as Node-RED's."""
        self.load(forwarder, Account())

    def load(self, forwarder: Forwarder, account: Account) -> None:
        began, before_cpu_s = len(self._sink.arrivals), process_tree.cpu_s(forwarder.pid)
        before_bytes, began_s = process_tree.written_bytes(forwarder.pid), time.monotonic()
        numbers = self._source.publish(forwarder.name, forwarder.round_readings)
        last_s = self._await(forwarder, began, numbers)
        wait_until_quiet(forwarder)
        count = len(numbers) - self._lost_and_duplicated(forwarder, began, numbers)[0]
        assert count, f"{forwarder.name} delivered none of {len(numbers)} readings"
        account.per_s.append(count / (last_s - began_s))
        account.cpu_us.append((process_tree.cpu_s(forwarder.pid) - before_cpu_s) / count * 1e6)
        account.sent_bytes.append(self._sent_bytes(forwarder, began) / count)
        account.written_bytes.append((process_tree.written_bytes(forwarder.pid) - before_bytes) / count)
        account.rss_mb = process_tree.peak_rss_mb(forwarder.pid)

    def outage(self, forwarder: Forwarder, account: Account) -> None:
        """Stop the destination broker, publish readings, and start it again."""
        self._destination.stop()
        began = len(self._sink.arrivals)
        numbers = self._source.publish(forwarder.name, OUTAGE_READINGS)
        wait_until_quiet(forwarder)
        time.sleep(COMMIT_S)
        self._destination.start()
        back_s = time.monotonic()
        last_s = self._await(forwarder, began, numbers)
        first = _first(self._sink.arrivals[began:], forwarder.numbers_in)
        account.resume_s.append(float("inf") if first is None else first.at_s - back_s)
        account.drained_per_s.append(0.0 if first is None else OUTAGE_READINGS / max(last_s - first.at_s, 1e-3))
        lost, duplicated = self._lost_and_duplicated(forwarder, began, numbers)
        account.lost_in_outage = max(account.lost_in_outage, lost)
        account.duplicated_in_outage = max(account.duplicated_in_outage, duplicated)

    def outage_of_ours(self, forwarder: Forwarder, account: Account) -> None:
        """Some more outages for Headgate: it drains in a fraction of a second, so that one measurement says little."""
        if isinstance(forwarder, Headgate):
            self.outage(forwarder, account)

    def kill(self, forwarder: Forwarder, account: Account) -> None:
        began = len(self._sink.arrivals)
        numbers = self._source.publish(forwarder.name, KILL_READINGS // 2)
        forwarder.kill()
        numbers += self._source.publish(forwarder.name, KILL_READINGS // 2)
        forwarder.start()
        self._await(forwarder, began, numbers)
        account.lost_over_kill, account.duplicated_over_kill = self._lost_and_duplicated(forwarder, began, numbers)

    def _await(self, forwarder: Forwarder, began: int, numbers: Sequence[int]) -> float:
        """The time at which the last of the numbers arrived, or the last that did arrive.

        Messages are decoded only while none arrives, because that would slow down the sink.
        """
        missing, arrivals = set(numbers), self._sink.arrivals
        decoded, seen, last_s, moved_s = began, began, time.monotonic(), time.monotonic()
        while missing and time.monotonic() - moved_s < STALL_S:
            time.sleep(POLL_S)
            if len(arrivals) > seen:
                seen, moved_s = len(arrivals), time.monotonic()
                continue
            for arrival in arrivals[decoded:seen]:
                if found := missing.intersection(forwarder.numbers_in(arrival)):
                    missing -= found
                    last_s = arrival.at_s
            decoded = seen
        return last_s

    def _sent_bytes(self, forwarder: Forwarder, began: int) -> int:
        """The size of the publications with readings: topics and payloads."""
        arrivals = self._sink.arrivals[began:]
        return sum(len(each.topic) + len(each.payload) for each in arrivals if forwarder.numbers_in(each))

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
