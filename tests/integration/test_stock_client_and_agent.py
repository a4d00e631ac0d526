"""A stock JavaScript client at one end, ours at the other, a node between: keys pass from publisher to reader."""

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.keys import DeviceKeys, Secret, create_key_file, load_keys
from protocol.ethereum.signer import Signer
from protocol.iomessage import ChainVerifier
from protocol.iomessage.content import decode_content
from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S
from tests.support.processes import spawned
from tests.support.running_agent import Agent
from tests.support.small_client import SmallClient
from tests.support.stock_clients import StockClient, with_releases_of
from tests.support.within import within

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]

ALICE, BOB, CAROL = (Signer(bytes([digits]) * 32) for digits in (0x11, 0x22, 0x33))  # as the scenarios know them
OUR_SECRET = b"\x44" * 32
ROTATE_AFTER_MESSAGES = 5
MESSAGES = 4 * ROTATE_AFTER_MESSAGES

ENCRYPTED_STREAM = f"""
[[streams]]
stream = "{{address}}/secret"
quantity = "temperature"
content = "json"
encryption = "aes"
readers = ["{BOB.address}", "{CAROL.address}"]
rotate_after_messages = {ROTATE_AFTER_MESSAGES}
"""


@pytest.fixture
def node_address(tmp_path: Path) -> Iterator[str]:
    with running(*node_arguments(tmp_path / "node")) as node:
        yield node.wait_for(r"node listens; address=(\S+)")


@with_releases_of("client5")
def test_client_5_reads_the_agents_rotating_stream_with_the_keys_the_agent_gives_it(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    with publishing_agent(tmp_path / "agent", node_address) as (agent, stream_id):
        result = client.run("reading", node_address, tmp_path, stream_id, str(MESSAGES))
    assert_in_order_over_rotations(result["live"])
    assert_in_order_over_rotations(result["history"])
    assert set(re.findall(r"keys sent; stream=\S+ reader=(\S+)", agent.log())) == {BOB.address, CAROL.address}


@with_releases_of("client5")
def test_client_5_gets_no_key_from_an_agent_that_does_not_list_it(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    with publishing_agent(tmp_path / "agent", node_address) as (agent, stream_id):
        result = client.run("lockedOut", node_address, tmp_path, stream_id)
    assert "GroupKey" in result["refusal"]
    assert f"keys refused; stream={stream_id} reader={ALICE.address}" in agent.log()


@contextmanager
def publishing_agent(folder: Path, node_address: str) -> Iterator[tuple[Agent, str]]:
    """An agent, and the encrypted stream that it publishes."""
    agent = make_agent(folder, node_address)
    stream_id = make_stream(agent, node_address)
    with agent.start() as process:
        try:
            yield agent, stream_id
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def make_agent(folder: Path, node_address: str) -> Agent:
    publisher = f'\n[publishers.node]\nkind = "websocket"\nurl = "http://{node_address}"\n'
    agent = Agent.make(folder, rate_hz=20, extra=publisher)
    rules = agent.config.read_text().replace("[[streams]]", f"{ENCRYPTED_STREAM}[[streams]]", 1)
    agent.config.write_text(rules)
    return agent


def make_stream(agent: Agent, node_address: str) -> str:
    """Every client may have its messages; the agent decides which addresses can read them."""
    device = Signer(load_keys(agent.key_file, lambda: Secret(b"")).identity.reveal())
    client = SmallClient(node_address, device)
    stream_id = f"{device.address}/secret"
    client.make_public_stream(stream_id)
    client.close()
    return stream_id


def assert_in_order_over_rotations(messages: list[dict[str, Any]]) -> None:
    assert len(messages) == MESSAGES
    assert len({message["groupKeyId"] for message in messages}) >= MESSAGES // ROTATE_AFTER_MESSAGES
    links = ChainVerifier()
    readings = [reading for message in messages for reading in decode_content(message["content"])]
    assert [links.check(reading) for reading in readings] == [None] * len(readings)


@with_releases_of("client5")
def test_headgate_subscribe_reads_client_5s_stream_through_rotation_and_rekey(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(start_publisher(client, node_address, tmp_path))
            stream_id = (await next_line(publisher))["stream"]
            reader = await stack.enter_async_context(start_reader(stream_id, node_address, tmp_path))
            stored = [await next_line(reader) for _ in range(4)]
            await ask_for_more(publisher)
            live = [await next_line(reader) for _ in range(4)]
            await ask_for_more(publisher)
            assert [event.get("content") for event in stored + live] == [{"n": n} for n in range(1, 9)]
            assert {(event["event"], event["encrypted"]) for event in stored + live} == {("message", True)}
            assert [await within(PATIENCE_S, end.wait()) for end in (reader, publisher)] == [0, 0]

    asyncio.run(scenario())


def start_publisher(client: StockClient, node_address: str, home: Path) -> AbstractAsyncContextManager[Process]:
    command = client.command("publishing", node_address, Signer(OUR_SECRET).address)
    return spawned(*command, env=client.environment(home), stdin=PIPE, stdout=PIPE)


def start_reader(stream_id: str, node_address: str, folder: Path) -> AbstractAsyncContextManager[Process]:
    key_file = folder / "reader" / "keys"
    keys = DeviceKeys(identity=Secret(OUR_SECRET), archive=Secret(b"\x03" * 32), vault=Secret(b"\x04" * 32))
    create_key_file(key_file, keys, None)
    options = ["--node", node_address, "--keys", str(key_file), "--last", "4", "--count", "8", "--json"]
    command = [sys.executable, "-m", "agent", "subscribe", stream_id, *options]
    return spawned(*command, stdout=PIPE)


async def next_line(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(await within(PATIENCE_S, process.stdout.readline()))
    return line


async def ask_for_more(publisher: Process) -> None:
    assert publisher.stdin is not None
    publisher.stdin.write(b"\n")
    await publisher.stdin.drain()
