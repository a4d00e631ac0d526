"""Three nodes and a tracker, as processes: what is published at one reaches the others, once, also when one dies."""

import itertools
import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from protocol.ethereum.signer import Signer
from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S
from tests.support.small_client import MessageMaker, SmallClient

if TYPE_CHECKING:
    from testbed.processes import HeadgateProcess

pytestmark = pytest.mark.slow

SIGNER = Signer(b"\x01" * 32)
STREAM = f"{SIGNER.address}/overlay"


class Network:
    """A tracker and nodes of its network, each with a client."""

    def __init__(self, stack: ExitStack, folder: Path, *tracker_options: str) -> None:
        self._stack = stack
        self._folder = folder
        self._tracker_options = tracker_options
        self.tracker = self._start_tracker("127.0.0.1:0")
        self.nodes: dict[str, HeadgateProcess] = {}
        self.clients: dict[str, SmallClient] = {}

    def restart_tracker(self) -> None:
        self.tracker_process.kill()
        self._start_tracker(self.tracker)

    def _start_tracker(self, listen: str) -> str:
        process = running("node", "tracker", "--listen", listen, *self._tracker_options)
        self.tracker_process = self._stack.enter_context(process)
        return self.tracker_process.wait_for(r"tracker listens; address=(\S+)")

    def start(self, name: str, *options: str) -> SmallClient:
        data = self._folder / name
        is_new = not data.exists()
        arguments = node_arguments(data, "--join", f"ws://{self.tracker}", *options)
        node = self.nodes[name] = self._stack.enter_context(running(*arguments))
        client = SmallClient(node.wait_for(r"node listens; address=(\S+)"), SIGNER)
        self._stack.callback(client.close)
        if is_new:
            client.make_public_stream(STREAM)
        self.clients[name] = client
        return client

    def cut_off(self, name: str) -> str:
        """Kill both neighbours of a node in a ring of four. The name of the one that is left, out of its reach."""
        names = {self._address(each): each for each in self.nodes}
        neighbours = {names[address] for address in self.topology()[self._address(name)]}
        for each in neighbours:
            self.nodes[each].kill()
        [left] = self.nodes.keys() - neighbours - {name}
        return left

    def _address(self, name: str) -> str:
        return self.nodes[name].wait_for(r"overlay listens; address=(\S+)")

    def topology(self) -> dict[str, list[str]]:
        with urlopen(f"http://{self.tracker}/topology", timeout=PATIENCE_S) as reply:
            partitions = json.loads(reply.read())["plain"]["partitions"]
        return dict(partitions.get(f"{STREAM}::0", {}))


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(stack, tmp_path)


@pytest.fixture
def row(tmp_path: Path) -> Iterator[Network]:
    """A network in which a node has two neighbours at most."""
    with ExitStack() as stack:
        yield Network(stack, tmp_path, "--max-neighbours", "2", "--seed", "1")


def contents(numbers: range) -> list[str]:
    return [json.dumps(number) for number in numbers]


def test_a_message_published_at_one_node_reaches_the_subscribers_of_all_once_and_in_order(network: Network) -> None:
    clients = [network.start(name) for name in "abc"]
    for client in clients:
        client.subscribe(STREAM)
    maker = MessageMaker(SIGNER, STREAM)
    clients[0].publish(*(maker.make(number) for number in range(100)))
    for client in clients:
        assert client.read(100) == contents(range(100))
    clients[0].publish(maker.make("end"))
    for client in clients:
        assert client.read(1) == ['"end"'], "nothing came twice in between"


def test_when_nodes_die_the_rest_heal_nothing_comes_twice_and_what_was_stored_is_resent(row: Network) -> None:
    for name in "abcd":
        row.start(name).subscribe(STREAM)
    maker = MessageMaker(SIGNER, STREAM)
    row.clients["a"].publish(*(maker.make(number) for number in range(50)))
    for name in "abcd":
        assert row.clients[name].read(50) == contents(range(50))
    far = row.cut_off("a")
    row.clients["a"].publish(*(maker.make(number) for number in range(50, 100)))
    for name in ("a", far):
        assert row.clients[name].read(50) == contents(range(50, 100))
        assert row.clients[name].resend_last(STREAM, 1000) == contents(range(100))


def test_a_node_that_starts_again_is_taken_back_in(row: Network) -> None:
    for name in "abc":
        row.start(name).subscribe(STREAM)
    maker = MessageMaker(SIGNER, STREAM)
    row.clients["a"].publish(maker.make(0))
    row.clients["c"].read(1)
    row.nodes["c"].kill()
    row.clients["a"].publish(maker.make(1))
    row.clients["b"].read(2)
    again = row.start("c")
    again.subscribe(STREAM)
    row.clients["b"].publish(maker.make(2))
    assert again.read_until(2)[-1] == "2"


def test_a_tracker_and_a_node_that_restart_while_messages_flow_lose_none(row: Network) -> None:
    for name in "abcd":
        row.start(name).subscribe(STREAM)
    maker, numbers = MessageMaker(SIGNER, STREAM), itertools.count()

    def publish() -> None:
        row.clients["a"].publish(*(maker.make(next(numbers)) for _ in range(20)))

    publish()
    assert row.clients["d"].read(20) == contents(range(20))
    for restart in (row.restart_tracker, row.nodes["c"].kill, lambda: row.start("c"), row.restart_tracker):
        publish()
        restart()
        publish()
    row.clients["a"].publish(maker.make("end"))
    expected = [*contents(range(next(numbers))), '"end"']
    for name in "ab":
        assert sorted(row.clients[name].read(len(expected))) == sorted(expected)
    assert sorted(row.clients["d"].read(len(expected) - 20)) == sorted(expected[20:])
    deadline_s = time.monotonic() + PATIENCE_S
    while row.clients["c"].resend_last(STREAM, 1000) != expected:
        assert time.monotonic() < deadline_s


def test_nodes_and_their_tracker_that_are_stopped_together_all_end(network: Network) -> None:
    for name in "ab":
        network.start(name).subscribe(STREAM)
    network.nodes["a"].wait_for(r"(neighbour connected)")
    processes = [network.tracker_process, *network.nodes.values()]
    for process in processes:
        process.signal(signal.SIGTERM)
    assert [process.wait() for process in processes] == [0, 0, 0]


def test_a_storage_node_keeps_what_is_published_elsewhere_though_no_client_of_it_asks(network: Network) -> None:
    publisher, storage = network.start("a", "--peer-type", "node"), network.start("b")
    maker = MessageMaker(SIGNER, STREAM)
    publisher.publish(*(maker.make(number) for number in range(10)))
    network.nodes["b"].wait_for(r"(neighbour connected)")
    storage.subscribe(STREAM)
    publisher.publish(maker.make("end"))
    storage.read_until("end")
    network.nodes["a"].kill()
    assert storage.resend_last(STREAM, 100) == [*contents(range(10)), '"end"']


def test_old_nodes_and_new_ones_hear_each_other_through_a_node_that_speaks_both(network: Network) -> None:
    clients = [network.start("a", "--network-layer"), network.start("b", "--network-layer")]
    for client in clients:
        client.subscribe(STREAM)
    maker = MessageMaker(SIGNER, STREAM)
    clients[0].publish(*(maker.make(number) for number in range(10)))
    for client in clients:
        assert client.read(10) == contents(range(10))


def test_a_node_that_is_its_own_tracker_shows_what_its_parts_count(tmp_path: Path) -> None:
    with running(*node_arguments(tmp_path, "--tracker", "127.0.0.1:0")) as node:
        tracker = node.wait_for(r"tracker listens; address=(\S+)")
        address = node.wait_for(r"node listens; address=(\S+)")
        with running(*node_arguments(tmp_path / "other", "--join", f"ws://{tracker}")) as other:
            client = SmallClient(address, SIGNER)
            client.make_public_stream(STREAM)
            client.subscribe(STREAM)
            other.wait_for(r"(neighbour connected)")
            client.close()
            with urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as reply:
                text = reply.read().decode()
    assert "headgate_node_overlay_links_opened_total 1\n" in text
    assert "# TYPE headgate_node_tracker_statuses_total counter\n" in text


def test_every_process_exits_cleanly_on_request(network: Network) -> None:
    network.start("a")
    network.start("b").subscribe(STREAM)
    for node in network.nodes.values():
        assert node.stop() == 0
