"""A node that dies in the middle of its work."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from testbed.processes import HeadgateProcess, node_arguments, running
from tests.integration.node_bench import ALICE, Chain, NodeUnderTest, ask, hear, publish_request

pytestmark = pytest.mark.slow

STREAM = "boiler"
SETTINGS = f'[[streams]]\nid = "{STREAM}"\npublishers = ["{ALICE.address}"]\nsubscribers = ["anybody"]\n'
HEARD_BEFORE_THE_KILL = 200
MESSAGES = 3_000


def test_every_message_that_anybody_heard_is_there_after_a_kill(tmp_path: Path) -> None:
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
        answer = await ask(client, [2, 11, "r", STREAM, 0, MESSAGES, None])
        while answer[1] != 5:
            if answer[1] == 1:
                numbers.append(json.loads(answer[3][7])["n"])
            answer = await hear(client)
    return numbers
