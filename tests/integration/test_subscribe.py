"""`headgate subscribe` as a process, against a real node, with the agent's publisher at the other end."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Record
from agent.keys import DeviceKeys, Secret, create_key_file
from agent.keys.group_keys import GroupKeyStore
from agent.pack.encryption import EncryptionRules, StreamEncryption
from agent.publish.websocket import WebsocketPublisher
from protocol.ethereum.signer import Signer
from protocol.iomessage import EMPTY_CHAIN, ChainHead, IoMessage
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message.chain_writer import ChainWriter
from testbed.processes import free_port
from tests.support.destinations import SIGNER as DEVICE
from tests.support.destinations import STREAM, NodeDestination
from tests.support.pack_samples import binary_content, json_content, linked_readings
from tests.support.patience import PATIENCE_S
from tests.support.processes import spawned
from tests.support.proxies import proxy_to
from tests.support.small_client import SmallClient
from tests.support.within import within

pytestmark = pytest.mark.slow

READER, UNLISTED = Signer(b"\x21" * 32), Signer(b"\x22" * 32)
START_MS = 1_700_000_000_000


@pytest.fixture
def keys() -> DeviceKeys:
    return DeviceKeys(identity=Secret(b"\x07" * 32), archive=Secret(b"\x08" * 32), vault=Secret(b"\x09" * 32))


@pytest.fixture
def encryption(keys: DeviceKeys, tmp_path: Path) -> StreamEncryption:
    rules = EncryptionRules(readers=frozenset({READER.address}), rotate_after_messages=3)
    return StreamEncryption(DEVICE, GroupKeyStore(tmp_path / "group keys", keys), {STREAM: rules})


@pytest.fixture
def node(tmp_path: Path, encryption: StreamEncryption) -> Iterator[NodeDestination]:
    node = NodeDestination(tmp_path, "websocket", listener=encryption)
    node.start()
    client = SmallClient(node.url, DEVICE)
    client.make_public_stream(STREAM)
    client.close()
    yield node
    node.stop()


class Chain:
    """Signed messages, as records of a journal."""

    def __init__(self) -> None:
        self._writer = ChainWriter(DEVICE, stream_id=STREAM, msg_chain_id="chain")
        self._last: MessageRef | None = None
        self._count = 0

    def record(self, encryption: StreamEncryption | None = None) -> Record:
        ref = MessageRef(START_MS + self._count, 0)
        content = json.dumps({"n": self._count})
        if encryption is None:
            payload = self._writer.write(content, ref, self._last)
        else:
            locked = encryption.encrypt_for(STREAM)(content, time.time_ns() // 1_000_000)
            payload = self._writer.write(
                locked.content, ref, self._last, group_key_id=locked.group_key_id, new_group_key=locked.new_group_key
            )
        self._last, self._count = ref, self._count + 1
        return Record(self._count, 0, payload, "chain", *ref, START_MS)

    def records(self, count: int, encryption: StreamEncryption | None = None) -> list[Record]:
        return [self.record(encryption) for _ in range(count)]


@asynccontextmanager
async def connected(node: NodeDestination) -> AsyncIterator[WebsocketPublisher]:
    publisher = node.publisher(node.port)
    assert isinstance(publisher, WebsocketPublisher)
    await publisher.connect()
    try:
        yield publisher
    finally:
        await publisher.close()


async def publish(publisher: WebsocketPublisher, records: list[Record]) -> None:
    await publisher.send(records)
    settled = 0
    while settled < len(records):
        settled += len(await publisher.outcomes())


class Subscriber:
    """The command, and what it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, stack: AsyncExitStack, *arguments: str) -> "Subscriber":
        """It ends with the stack, if not before."""
        command = [sys.executable, "-m", "agent", "subscribe", STREAM, "--json", *arguments]
        return cls(await stack.enter_async_context(spawned(*command, stdout=asyncio.subprocess.PIPE)))

    async def events(self, count: int) -> list[dict[str, Any]]:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            return [json.loads(await self._process.stdout.readline()) for _ in range(count)]

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()


def key_file(folder: Path, signer_secret: bytes) -> str:
    path = folder / f"reader {signer_secret[0]}" / "keys"
    keys = DeviceKeys(identity=Secret(signer_secret), archive=Secret(b"\x03" * 32), vault=Secret(b"\x04" * 32))
    create_key_file(path, keys, None)
    return str(path)


def test_stored_and_live_messages_are_printed_in_order(node: NodeDestination) -> None:
    async def scenario() -> None:
        chain = Chain()
        async with connected(node) as publisher, AsyncExitStack() as stack:
            await publish(publisher, chain.records(5))
            subscriber = await Subscriber.start(stack, "--node", node.url, "--last", "10", "--count", "8")
            stored = await subscriber.events(5)
            await publish(publisher, chain.records(3))
            live = await subscriber.events(3)
            assert [event["content"]["n"] for event in stored + live] == list(range(8))
            assert {event["event"] for event in stored + live} == {"message"}
            assert await subscriber.exit_code() == 0

    asyncio.run(scenario())


class PackChain:
    """Signed packs of linked readings, as records of a journal."""

    def __init__(self, encryption: StreamEncryption | None = None) -> None:
        self._writer = ChainWriter(DEVICE, stream_id=STREAM, msg_chain_id="a-chain-id-of-20-chr")
        self._encryption = encryption
        self._head = EMPTY_CHAIN
        self._last: MessageRef | None = None

    def record(self, count: int, encode: Callable[[Sequence[IoMessage]], str] = binary_content) -> Record:
        readings = linked_readings(count, self._head)
        ref, position = MessageRef(START_MS + self._head.position + 1, 0), self._head.position + 1
        payload = self._write(encode(readings), ref)
        self._head, self._last = ChainHead.of(readings[-1]), ref
        return Record(position, 0, payload, "chain", *ref, START_MS, count)

    def skip(self, count: int) -> None:
        """Leave readings out."""
        self._head = ChainHead.of(linked_readings(count, self._head)[-1])

    def _write(self, content: str, ref: MessageRef) -> bytes:
        if self._encryption is None:
            return self._writer.write(content, ref, self._last)
        locked = self._encryption.encrypt_for(STREAM)(content, time.time_ns() // 1_000_000)
        return self._writer.write(
            locked.content, ref, self._last, group_key_id=locked.group_key_id, new_group_key=locked.new_group_key
        )


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_large_packs_are_stored_resent_and_printed_by_their_readings(
    is_encrypted: bool, node: NodeDestination, encryption: StreamEncryption, tmp_path: Path
) -> None:
    """Together they are larger than all that a node holds for a client at a time."""

    async def scenario() -> None:
        chain = PackChain(encryption if is_encrypted else None)
        async with connected(node) as publisher, AsyncExitStack() as stack:
            stored = [chain.record(200, json_content if number % 2 else binary_content) for number in range(30)]
            assert sum(len(record.payload) for record in stored) > 2 * 1024 * 1024  # `max_outgoing_bytes`
            for record in stored:
                await publish(publisher, [record])
            options = ("--keys", key_file(tmp_path, b"\x21" * 32), "--last", "30", "--count", "6003")
            subscriber = await Subscriber.start(stack, "--node", node.url, *options)
            events = await subscriber.events(6_000)
            await publish(publisher, [chain.record(3)])
            events += await subscriber.events(3)
            assert await subscriber.exit_code() == 0
            assert {event["event"] for event in events} == {"reading"}
            assert [event["io_message"]["chainposition"] for event in events] == list(range(6_003))
            assert [event["reading"] for event in events[-4:]] == [199, 0, 1, 2]

    asyncio.run(scenario())


def test_a_publisher_that_leaves_readings_out_is_noticed(node: NodeDestination) -> None:
    async def scenario() -> None:
        chain = PackChain()
        async with connected(node) as publisher, AsyncExitStack() as stack:
            await publish(publisher, [chain.record(5)])
            chain.skip(2)
            await publish(publisher, [chain.record(5)])
            subscriber = await Subscriber.start(stack, "--node", node.url, "--last", "2", "--count", "10")
            events = await subscriber.events(11)
            assert [event["event"] for event in events] == ["reading"] * 5 + ["broken"] + ["reading"] * 5
            assert "positions 5 to 6" in events[5]["reason"]
            assert await subscriber.exit_code() == 1

    asyncio.run(scenario())


def test_what_was_missed_while_disconnected_is_filled_by_resends(node: NodeDestination) -> None:
    async def scenario() -> None:
        chain = Chain()
        async with connected(node) as publisher, proxy_to(node.port) as proxy, AsyncExitStack() as stack:
            await publish(publisher, chain.records(1))
            arguments = ("--node", f"127.0.0.1:{proxy.port}", "--last", "1", "--count", "7")
            subscriber = await Subscriber.start(stack, *arguments)
            first = await subscriber.events(1)
            await proxy.stop()
            await publish(publisher, chain.records(5))
            rest = asyncio.create_task(subscriber.events(6))
            await proxy.start()
            while not rest.done():  # until it has subscribed again, it hears none of these; the first it hears is a gap
                await publish(publisher, chain.records(1))
                await asyncio.wait({rest}, timeout=0.5)
            assert [event["content"]["n"] for event in first + rest.result()] == list(range(7))
            assert await subscriber.exit_code() == 0

    asyncio.run(within(PATIENCE_S, scenario()))


def test_an_encrypted_stream_is_read_only_by_its_readers(
    node: NodeDestination, encryption: StreamEncryption, tmp_path: Path
) -> None:
    async def scenario() -> None:
        chain = Chain()
        async with connected(node) as publisher, AsyncExitStack() as stack:
            await publish(publisher, chain.records(8, encryption))
            common = ("--node", node.url, "--last", "10", "--count", "8")
            reader = await Subscriber.start(stack, *common, "--keys", key_file(tmp_path, b"\x21" * 32))
            unlisted = await Subscriber.start(stack, *common, "--keys", key_file(tmp_path, b"\x22" * 32))
            keyless = await Subscriber.start(stack, *common)
            read = await reader.events(8)
            assert [(event["event"], event["content"]["n"]) for event in read] == [("message", n) for n in range(8)]
            assert all(event["encrypted"] for event in read)
            assert {event["event"] for event in await unlisted.events(8)} == {"locked"}
            assert {event["event"] for event in await keyless.events(8)} == {"locked"}
            assert [await each.exit_code() for each in (reader, unlisted, keyless)] == [0, 1, 1]

    asyncio.run(scenario())


def test_what_cannot_be_read_when_the_publisher_is_gone_is_counted_and_said(
    node: NodeDestination, encryption: StreamEncryption, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with connected(node) as publisher:
            await publish(publisher, Chain().records(12, encryption))
        keys = key_file(tmp_path, b"\x21" * 32)
        command = ("subscribe", STREAM, "--node", node.url, "--last", "20", "--timeout", "2", "--keys", keys)
        code, output, problems = await run_command(*command)
        assert code == 1
        assert output.count("LOCKED: the publisher did not answer the key request; it must be running") == 12
        assert "12 problems, of 12 messages that arrived, 0 readings printed:" in problems

    asyncio.run(within(PATIENCE_S, scenario()))


def test_group_keys_that_the_device_exported_open_its_stream_without_it(
    node: NodeDestination, encryption: StreamEncryption, keys: DeviceKeys, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with connected(node) as publisher:
            await publish(publisher, Chain().records(8, encryption))
        folder = tmp_path / "device"
        folder.mkdir(mode=0o700)
        create_key_file(folder / "device.keys", keys, None)
        exported = str(tmp_path / "group-keys.json")
        export = ("keys", "export-group-keys", "--keys", str(folder / "device.keys"), "--out", exported)
        assert (await run_command(*export, "--groups", str(tmp_path / "group keys")))[0] == 0
        command = ("subscribe", STREAM, "--node", node.url, "--last", "20", "--count", "8", "--json")
        code, output, _ = await run_command(*command, "--group-keys", exported)
        assert [json.loads(line)["content"]["n"] for line in output.splitlines()] == list(range(8))
        assert code == 0

    asyncio.run(within(PATIENCE_S, scenario()))


def test_a_stream_on_which_nothing_comes_is_said(node: NodeDestination) -> None:
    async def scenario() -> None:
        code, output, problems = await run_command("subscribe", STREAM, "--node", node.url, "--timeout", "0.5")
        assert (code, output) == (0, "")
        assert "no message arrived" in problems

    asyncio.run(within(PATIENCE_S, scenario()))


async def run_command(*arguments: str) -> tuple[int | None, str, str]:
    """Exit code, and what was said on stdout and stderr."""
    pipe = asyncio.subprocess.PIPE
    async with spawned(sys.executable, "-m", "agent", *arguments, stdout=pipe, stderr=pipe) as process:
        output, problems = await process.communicate()
    return process.returncode, output.decode(), problems.decode()


def test_rekeying_tells_the_readers_of_before_and_keeps_on(
    node: NodeDestination, encryption: StreamEncryption, tmp_path: Path
) -> None:
    async def scenario() -> None:
        chain = Chain()
        async with connected(node) as publisher, AsyncExitStack() as stack:
            await publish(publisher, chain.records(1, encryption))
            arguments = ("--node", node.url, "--last", "1", "--count", "2", "--keys", key_file(tmp_path, b"\x21" * 32))
            reader = await Subscriber.start(stack, *arguments)
            assert (await reader.events(1))[0]["content"] == {"n": 0}
            encryption.rekey(STREAM, time.time_ns() // 1_000_000)
            await publish(publisher, chain.records(1, encryption))
            assert (await reader.events(1))[0]["content"] == {"n": 1}
            assert await reader.exit_code() == 0

    asyncio.run(scenario())


def test_a_node_that_is_not_there_is_exit_code_69() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            subscriber = await Subscriber.start(stack, "--node", f"127.0.0.1:{free_port()}")
            assert await subscriber.exit_code() == 69

    asyncio.run(scenario())


def test_a_stream_that_is_not_there_is_exit_code_1(tmp_path: Path) -> None:
    node = NodeDestination(tmp_path, "websocket")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            subscriber = await Subscriber.start(stack, "--node", node.url)
            assert await subscriber.exit_code() == 1

    try:
        node.start()
        asyncio.run(scenario())
    finally:
        node.stop()
