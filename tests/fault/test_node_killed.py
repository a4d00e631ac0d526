"""A node that dies in the middle of its work."""

import asyncio
import itertools
import json
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from testbed.processes import HeadgateProcess
from tests.effort import effort
from tests.support.commands import node_arguments, running
from tests.support.node_bench import ALICE, Chain, NodeUnderTest, ask, hear, publish_request
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

STREAM = "boiler"
SETTINGS = f'[[streams]]\nid = "{STREAM}"\npublishers = ["{ALICE.address}"]\nsubscribers = ["public"]\n'
HEARD_BEFORE_THE_KILL = 200
MESSAGES = 3_000
KILLS = effort(test=2, soak=30)
MESSAGES_PER_S = 200


def test_every_message_that_a_client_received_is_there_after_a_kill(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text(SETTINGS)
    arguments = node_arguments(tmp_path / "data", "--config", str(settings))
    with running(*arguments) as node:
        heard = asyncio.run(_hear_until_killed(node))
    with running(*arguments) as node:
        stored = asyncio.run(_read_all(_under_test(node)))

    assert len(heard) >= HEARD_BEFORE_THE_KILL
    assert stored[: len(heard)] == heard
    assert stored == list(range(len(stored)))


def _under_test(process: HeadgateProcess) -> NodeUnderTest:
    address = process.wait_for(r"node listens; address=(\S+)")
    return NodeUnderTest(node=None, address=address)  # type: ignore[arg-type]


async def _hear_until_killed(process: HeadgateProcess) -> list[int]:
    node = _under_test(process)
    chain, heard = Chain(ALICE, STREAM), []
    async with node.connect() as subscriber, node.connect() as publisher:
        assert (await ask(subscriber, [2, 9, "s", STREAM, 0, None]))[1] == 2
        publishing = asyncio.create_task(_publish(publisher, chain))
        with suppress(ConnectionClosed):
            while True:
                heard.append(json.loads((await hear(subscriber))[3][7])["n"])
                if len(heard) == HEARD_BEFORE_THE_KILL:
                    process.kill()
        publishing.cancel()
        with suppress(asyncio.CancelledError, ConnectionClosed):
            await publishing
    return heard


async def _publish(publisher: ClientConnection, chain: Chain) -> None:
    for n in range(MESSAGES):
        await publisher.send(json.dumps(publish_request(chain.next({"n": n}))))


async def _read_all(node: NodeUnderTest) -> list[int]:
    numbers: list[int] = []
    async with node.connect() as client:
        answer = await ask(client, [2, 11, "r", STREAM, 0, 100_000, None])
        while answer[1] != 5:
            if answer[1] == 1:
                numbers.append(json.loads(answer[3][7])["n"])
            answer = await hear(client)
    return numbers


def test_a_joined_node_that_is_killed_again_and_again_ends_with_every_message(tmp_path: Path) -> None:
    """Its neighbour replays what it missed; some of that is older than what came first after the start."""
    settings = tmp_path / "node.toml"
    settings.write_text(SETTINGS)

    def arguments(name: str, tracker: str) -> list[str]:
        return node_arguments(tmp_path / name, "--config", str(settings), "--join", tracker)

    with running("node", "tracker", "--listen", "127.0.0.1:0") as tracker_process:
        tracker = "ws://" + tracker_process.wait_for(r"tracker listens; address=(\S+)")
        with running(*arguments("stays", tracker)) as staying:
            asyncio.run(_kill_while_publishing(_under_test(staying), arguments("killed", tracker)))


async def _kill_while_publishing(staying: NodeUnderTest, killed: list[str]) -> None:
    async with staying.connect() as connection:
        publisher = _Publisher()
        publishing = asyncio.create_task(publisher.publish_steadily(connection))
        for _ in range(KILLS):
            with running(*killed) as process:
                await publisher.publish_one_and_hear(_under_test(process))
                process.kill()
        with running(*killed) as process:
            await publisher.publish_one_and_hear(_under_test(process))
            publishing.cancel()
            await asyncio.wait({publishing})
            await _until_stored(_under_test(process), publisher.published)


class _Publisher:
    """One chain, published at one node mostly, and now and then at another."""

    def __init__(self) -> None:
        self._chain = Chain(ALICE, STREAM)
        self._numbers = itertools.count()
        self.published = 0

    async def publish_steadily(self, connection: ClientConnection) -> None:
        while True:
            await self._publish(connection)
            await asyncio.sleep(1 / MESSAGES_PER_S)

    async def publish_one_and_hear(self, node: NodeUnderTest) -> None:
        """At a node that has just started: the newest message comes before what the neighbours replay."""
        async with node.connect() as client:
            assert (await ask(client, [2, 9, "s", STREAM, 0, None]))[1] == 2
            await self._publish(client)
            for _ in range(HEARD_BEFORE_THE_KILL // 4):
                await hear(client)

    async def _publish(self, connection: ClientConnection) -> None:
        message = self._chain.next({"n": next(self._numbers)})
        self.published += 1
        await connection.send(json.dumps(publish_request(message)))


async def _until_stored(node: NodeUnderTest, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (stored := await _read_all(node)) != list(range(count)):
            assert len(stored) == len(set(stored)) <= count
            await asyncio.sleep(0.2)
