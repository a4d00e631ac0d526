"""Real nodes and trackers of two releases, as the registry has them, together with ours."""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from protocol.ethereum.signer import Signer
from protocol.streamr.stream_message import parse_stream_message
from tests.support.commands import node_arguments, running
from tests.support.npm_packages import REAL_NODES, installed
from tests.support.patience import PATIENCE_S
from tests.support.small_client import MessageMaker, SmallClient

SIGNER = Signer(b"\x03" * 32)
STREAM = f"{SIGNER.address}/real"

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]


class RealProcess:
    """A real node or tracker."""

    port: int

    def __init__(self, release: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(REAL_NODES / "driver.js"), *arguments],
            env={**os.environ, "NODE_PATH": str(installed(REAL_NODES / release) / "node_modules")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def say(self, **what: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def hear(self, kind: str, timeout_s: float = PATIENCE_S) -> Any:
        """The next thing of a kind that it says. Raises: queue.Empty."""
        while kind not in (said := self._said.get(timeout=timeout_s)):
            pass
        return said[kind]

    def hear_content(self, content: object) -> None:
        """Wait for a message with this content. What others published before may come first."""
        while parse_stream_message(self.hear("message")).content != json.dumps(content):
            pass

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listening.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._said.put(json.loads(line))


@contextmanager
def real(release: str, *arguments: str) -> Iterator[RealProcess]:
    process = RealProcess(release, *arguments)
    try:
        process.port = process.hear("port")
        yield process
    finally:
        process.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start_tracker(stack: ExitStack, listen: str = "127.0.0.1:0") -> str:
    tracker = stack.enter_context(running("node", "tracker", "--listen", listen))
    return "ws://" + tracker.wait_for(r"tracker listens; address=(\S+)")


def nodes_at(tracker: str) -> int:
    """How many nodes of the stream's partition have reported to the tracker."""
    with urlopen(tracker.replace("ws:", "http:") + "/topology", timeout=PATIENCE_S) as reply:
        return len(json.loads(reply.read())["plain"]["partitions"].get(f"{STREAM}::0", ()))


def start_node(stack: ExitStack, data: Path, tracker: str, *options: str) -> SmallClient:
    node = stack.enter_context(running(*node_arguments(data, "--join", tracker, *options)))
    client = SmallClient(node.wait_for(r"node listens; address=(\S+)"), SIGNER)
    stack.callback(client.close)
    client.make_public_stream(STREAM)
    client.subscribe(STREAM)
    return client


def check_both_ways(client: SmallClient, real_node: RealProcess) -> None:
    ours, theirs = MessageMaker(SIGNER, STREAM, "ours"), MessageMaker(SIGNER, STREAM, "theirs")
    for number in range(5):
        client.publish(ours.make(["ours", number]))
        real_node.hear_content(["ours", number])
        assert client.read(1) == [json.dumps(["ours", number])]
    for number in range(5):
        real_node.say(publish=theirs.make(["theirs", number]).serialize())
        assert client.read(1) == [json.dumps(["theirs", number])]


def test_a_real_node_22_at_our_tracker_and_our_node_hear_each_other(stack: ExitStack, tmp_path: Path) -> None:
    tracker = start_tracker(stack)
    client = start_node(stack, tmp_path, tracker)
    check_both_ways(client, stack.enter_context(real("release22", "node", tracker, STREAM)))


def test_a_real_node_22_finds_our_storage_and_is_resent_what_it_keeps(stack: ExitStack, tmp_path: Path) -> None:
    tracker = start_tracker(stack)
    client = start_node(stack, tmp_path, tracker)
    maker = MessageMaker(SIGNER, STREAM)
    client.publish(*(maker.make(number) for number in range(10)))
    client.read(10)
    real_node = stack.enter_context(real("release22", "node", tracker, STREAM))
    real_node.hear("message")
    real_node.say(resendLast=3)
    assert [parse_stream_message(text).content for text in real_node.hear("resent")] == ["7", "8", "9"]


def test_a_tracker_that_restarts_costs_a_real_node_22_and_ours_no_message(stack: ExitStack, tmp_path: Path) -> None:
    with ExitStack() as first_life:
        tracker = start_tracker(first_life)
        one, other = start_node(stack, tmp_path / "one", tracker), start_node(stack, tmp_path / "other", tracker)
        real_node = stack.enter_context(real("release22", "node", tracker, STREAM))
        check_both_ways(one, real_node)
        other.read(10)
    start_tracker(stack, tracker.removeprefix("ws://"))
    ours, theirs = MessageMaker(SIGNER, STREAM, "more of ours"), MessageMaker(SIGNER, STREAM, "more of theirs")
    published = 0
    while published < 100 or nodes_at(tracker) < 3:
        other.publish(ours.make(published))
        real_node.say(publish=theirs.make(published + 1).serialize())
        published += 2
        time.sleep(0.02)
    contents = [json.dumps(number) for number in range(published)]
    assert sorted(one.read(published)) == sorted(other.read(published)) == sorted(contents)
    for number in range(0, published, 2):
        real_node.hear_content(number)


def test_our_nodes_follow_a_real_tracker_22(stack: ExitStack, tmp_path: Path) -> None:
    tracker = f"ws://127.0.0.1:{stack.enter_context(real('release22', 'tracker')).port}"
    one, other = start_node(stack, tmp_path / "one", tracker), start_node(stack, tmp_path / "other", tracker)
    maker = MessageMaker(SIGNER, STREAM)
    one.publish(*(maker.make(number) for number in range(20)))
    assert one.read(20) == other.read(20) == [json.dumps(number) for number in range(20)]
    check_both_ways(one, stack.enter_context(real("release22", "node", tracker, STREAM)))


def test_a_real_node_19_and_our_node_hear_each_other_in_frames_of_the_network_layer(
    stack: ExitStack, tmp_path: Path
) -> None:
    tracker = start_tracker(stack)
    client = start_node(stack, tmp_path, tracker, "--network-layer")
    real_node = stack.enter_context(real("release19", "node", f"{tracker}/network", STREAM))
    check_both_ways(client, real_node)
