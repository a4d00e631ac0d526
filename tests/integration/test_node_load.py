"""A node among 200 connections, most of them bad: it stays up, its memory is bounded, honest clients are served."""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from node.streams import PUBLIC
from tests.support.commands import node_arguments, running
from tests.support.node_bench import ALICE, BOB, Chain, NodeUnderTest, ask, hear, publish_request, running_node
from tests.support.patience import PATIENCE_S
from tests.support.within import within

pytestmark = pytest.mark.slow

STREAM = f"{ALICE.address}/boiler"
MESSAGES = 300
PADDING = "x" * 2_000
MAX_GROWTH_MB = 90
SETTINGS = """
[limits]
max_outgoing_bytes = 500_000
max_buffered_bytes = 32_000_000
max_message_bytes = 300_000
"""


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@asynccontextmanager
async def open_raw(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        writer.close()


UPGRADE = (
    b"GET /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@asynccontextmanager
async def upgraded(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with open_raw(address) as (reader, writer):
        writer.write(UPGRADE)
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        yield reader, writer


def masked_text(text: str) -> bytes:
    """A client's frame, masked with zeros."""
    payload = text.encode()
    return b"\x81" + bytes([0x80 | 126]) + len(payload).to_bytes(2) + bytes(4) + payload


async def read_nothing(node: NodeUnderTest) -> None:
    """Subscribe, then never read again."""
    async with upgraded(node.address) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(masked_text(json.dumps([2, 9, "slow", STREAM, 0, None])))
        await asyncio.Event().wait()


async def resend_without_reading(node: NodeUnderTest) -> None:
    async with upgraded(node.address) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for index in range(10):
            writer.write(masked_text(json.dumps([2, 12, f"r{index}", STREAM, 0, [0, 0], None, None])))
        await asyncio.Event().wait()


async def flood(node: NodeUnderTest) -> None:
    """Requests as fast as they go out, and never a look at the answers."""
    frame = masked_text(json.dumps([2, 9, "flood", f"SYSTEM/keyexchange/{BOB.address}", 0, None])) * 50
    async with upgraded(node.address) as (_, writer):
        while True:
            writer.write(frame)
            await writer.drain()


async def send_half_a_frame(node: NodeUnderTest) -> None:
    async with upgraded(node.address) as (_, writer):
        writer.write(b"\x81\xff" + (290_000).to_bytes(8) + bytes(4) + b"x" * 250_000)
        await asyncio.Event().wait()


async def send_garbage(node: NodeUnderTest) -> None:
    async with upgraded(node.address) as (reader, writer):
        writer.write(random.Random(7).randbytes(3_000))
        await reader.read()


async def send_unparsable(node: NodeUnderTest) -> None:
    async with node.connect() as client:
        while True:
            await ask(client, "[2,8,[[[[" + "[" * 5_000)


async def send_oversized(node: NodeUnderTest) -> None:
    async with upgraded(node.address) as (reader, writer):
        writer.write(b"\x81\xff" + (2**40).to_bytes(8) + bytes(4) + b"x" * 10_000)
        await reader.read()


async def send_half_a_request(node: NodeUnderTest) -> None:
    async with open_raw(node.address) as (_, writer):
        writer.write(b"POST /api/v1/login/response HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        await asyncio.Event().wait()


async def send_endless_headers(node: NodeUnderTest) -> None:
    async with open_raw(node.address) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000)
        await reader.read()


async def guess_logins(node: NodeUnderTest) -> None:
    body = {"challenge": {"id": "guess"}, "signature": "0x" + "11" * 65, "address": ALICE.address}
    while True:
        assert (await node.call("POST", "/login/response", body)).status in (401, 429)


BAD_CLIENTS = {
    read_nothing: 40,
    resend_without_reading: 20,
    flood: 6,
    send_half_a_frame: 60,
    send_garbage: 10,
    send_unparsable: 4,
    send_oversized: 10,
    send_half_a_request: 30,
    send_endless_headers: 10,
    guess_logins: 2,
}


async def bother(client: object, node: NodeUnderTest) -> None:
    """Be a bad client until cancelled, whatever becomes of the connection."""
    while True:
        with suppress(ConnectionError, ConnectionClosed, asyncio.IncompleteReadError, AssertionError):
            await client(node)  # type: ignore[operator]
        await asyncio.sleep(0.05)


@asynccontextmanager
async def honest_subscriber(node: NodeUnderTest) -> AsyncIterator[ClientConnection]:
    async with node.connect() as client:
        assert (await ask(client, [2, 9, "honest", STREAM, 0, None]))[1] == 2
        yield client


async def listen(client: ClientConnection) -> list[int]:
    return [json.loads((await hear(client))[3][7])["n"] for _ in range(MESSAGES)]


def test_honest_clients_are_served_among_two_hundred_connections(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text(SETTINGS)
    with running(*node_arguments(tmp_path / "data", "--config", str(settings))) as process:
        address = process.wait_for(r"node listens; address=(\S+)")
        node = NodeUnderTest(node=None, address=address)  # type: ignore[arg-type]
        before_mb = resident_mb(process.pid)
        heard, peak_mb = asyncio.run(_publish_among_bad_clients(node, process.pid))
        print(f"resident memory: {before_mb:.0f} MB before, {peak_mb:.0f} MB at most")

        assert process.is_running
        assert process.stop() == 0
    assert all(numbers == list(range(MESSAGES)) for numbers in heard)
    assert peak_mb - before_mb < MAX_GROWTH_MB
    assert not any("Traceback" in line for line in process.lines), "\n".join(process.lines)


async def _publish_among_bad_clients(node: NodeUnderTest, pid: int) -> tuple[list[list[int]], float]:
    token = await node.log_in(ALICE)
    await node.make_stream(token, STREAM, requireSignedData=True)
    await node.grant(token, STREAM, "stream_subscribe", None)
    peak_mb = 0.0
    async with AsyncExitStack() as stack:
        subscribers = [await stack.enter_async_context(honest_subscriber(node)) for _ in range(8)]
        publisher = await stack.enter_async_context(node.connect())
        bad = [asyncio.create_task(bother(client, node)) for client, count in BAD_CLIENTS.items() for _ in range(count)]
        hearing = [asyncio.create_task(listen(client)) for client in subscribers]
        chain = Chain(ALICE, STREAM)
        for n in range(MESSAGES):
            await publisher.send(json.dumps(publish_request(chain.next({"n": n, "padding": PADDING}))))
            await asyncio.sleep(0.01)
            peak_mb = max(peak_mb, resident_mb(pid))
        heard = await asyncio.gather(*hearing)
        assert (await node.call("GET", "/healthz")).status == 200
        for task in bad:
            task.cancel()
        await asyncio.gather(*bad, return_exceptions=True)
    return heard, peak_mb


def test_a_subscriber_that_does_not_read_is_dropped_and_others_are_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_outgoing_bytes=100_000) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            await node.grant(token, STREAM, "stream_subscribe", None)
            async with honest_subscriber(node) as honest, node.connect() as publisher:
                slow = asyncio.create_task(read_nothing(node))
                chain, n = Chain(ALICE, STREAM), 0
                while not node.node.counters.slow_clients_dropped:
                    await publisher.send(json.dumps(publish_request(chain.next({"n": n, "padding": "x" * 50_000}))))
                    assert json.loads((await hear(honest))[3][7])["n"] == n
                    n += 1
                slow.cancel()
                with suppress(asyncio.CancelledError):
                    await slow
            assert n > 2

    asyncio.run(scenario())


def test_a_burst_beyond_what_may_be_queued_for_one_client_reaches_those_who_read(tmp_path: Path) -> None:
    messages, limit = 200, 1_000_000

    async def scenario() -> None:
        async with running_node(tmp_path, max_outgoing_bytes=limit) as node:
            token = await node.log_in(ALICE)
            await node.make_stream(token, STREAM)
            await node.grant(token, STREAM, "stream_subscribe", None)
            chain, padding = Chain(ALICE, STREAM), "x" * (8 * limit // messages)
            async with honest_subscriber(node) as honest:
                for n in range(messages):
                    node.node.hub.publish(chain.next({"n": n, "padding": padding}), PUBLIC)
                for n in range(messages):
                    assert json.loads((await hear(honest))[3][7])["n"] == n

    asyncio.run(scenario())


def test_a_silent_client_is_pinged_and_a_dead_one_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, ping_interval_s=0.2) as node, node.connect() as alive:
            async with upgraded(node.address) as (reader, _):
                assert (await within(PATIENCE_S, reader.readexactly(2))) == b"\x89\x00"
                assert await within(PATIENCE_S, reader.read()) == b""
            assert (await ask(alive, [2, 10, "r", STREAM, 0]))[4] == "INVALID_REQUEST"

    asyncio.run(scenario())


def test_an_idle_client_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, idle_timeout_s=0.5) as node, node.connect() as client:
            with pytest.raises(ConnectionClosed) as closed:
                await within(PATIENCE_S, client.recv())
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001

    asyncio.run(scenario())


def test_a_client_that_does_not_answer_the_end_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, idle_timeout_s=0.2, close_timeout_s=0.2) as node:
            async with upgraded(node.address) as (reader, _):
                said = await within(PATIENCE_S, reader.read())
            assert said[:1] == b"\x88"
            await node.all_gone()

    asyncio.run(scenario())


def test_a_message_in_very_many_empty_frames_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node, upgraded(node.address) as (reader, writer):
            text = json.dumps([2, 10, "r", STREAM, 0]).encode()
            writer.write(bytes([0x01, 0x80 | len(text)]) + bytes(4) + text)
            for _ in range(20):
                writer.write((b"\x00\x80" + bytes(4)) * 5_000)
                await writer.drain()
            writer.write(b"\x80\x80" + bytes(4))
            answer = await within(PATIENCE_S, reader.readuntil(b"]"))
            assert b"INVALID_REQUEST" in answer

    asyncio.run(scenario())


def test_a_request_that_never_ends_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, request_timeout_s=0.3, keep_alive_timeout_s=0.3) as node:
            for beginning, reported in (
                (b"", b""),
                (b"POST / HTTP/1.1\r\n", b""),
                (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 408"),
            ):
                async with open_raw(node.address) as (reader, writer):
                    writer.write(beginning)
                    with suppress(ConnectionError):
                        assert (await within(PATIENCE_S, reader.read()))[:12] == reported

    asyncio.run(scenario())


def test_a_connection_that_asks_too_fast_is_read_more_slowly(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_requests_per_s=20) as node, node.connect() as client:
            for _ in range(25):
                await client.send(json.dumps([2, 10, "r", STREAM, 0]))
            for _ in range(25):
                await hear(client)
            assert node.node.counters.throttled >= 4

    asyncio.run(scenario())


def test_logins_of_one_machine_are_limited(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_logins_per_s=0.01) as node:
            statuses = [(await node.call("POST", f"/login/challenge/{ALICE.address}")).status for _ in range(110)]
            assert statuses == [200] * 100 + [429] * 10

    asyncio.run(scenario())


def test_connections_beyond_the_limit_are_turned_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path, max_connections_per_address=3) as node:
            async with node.connect(), node.connect(), node.connect() as last:
                async with open_raw(node.address) as (reader, _):
                    assert (await within(PATIENCE_S, reader.read())).startswith(b"HTTP/1.1 503 ")
                assert (await ask(last, [2, 10, "r", STREAM, 0]))[1] == 7
            await node.all_gone()
            assert (await node.call("GET", "/healthz")).status == 200

    asyncio.run(scenario())
