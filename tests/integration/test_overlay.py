"""A node among others, in one event loop: what neighbours may do to it, and what it does for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from node.errors import ConfigError
from node.overlay.overlay import Overlay, OverlaySettings
from node.peers.connection import PeerConnection, dial
from node.peers.server import listen, shown_address
from node.tracker.server import TrackerServer
from protocol.streamr.stream_message import StreamMessage
from tests.support.node_bench import ALICE, Chain, NodeUnderTest, ask, hear, publish_request, running_node
from tests.support.patience import PATIENCE_S

STREAM = f"{ALICE.address}/overlay"
NO_TRACKER = "ws://127.0.0.1:1"


@asynccontextmanager
async def running_task(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def member(data: Path, tracker_url: str = NO_TRACKER) -> AsyncIterator[tuple[NodeUnderTest, Overlay]]:
    """A node with its stream, in the network of a tracker."""
    async with running_node(data) as node:
        token = await node.log_in(ALICE)
        await node.make_stream(token, STREAM)
        for operation in ("stream_get", "stream_subscribe"):
            await node.grant(token, STREAM, operation, None)
        settings = OverlaySettings(tracker_url=tracker_url)
        overlay = Overlay(node.node.hub, node.node.storage, listen("127.0.0.1", 0), settings, chance=Random(1))
        async with running_task(overlay.run()):
            yield node, overlay


def in_time(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario()

    asyncio.run(run())


def neighbour(overlay: Overlay, address: str = "ws://127.0.0.1:2") -> connect:
    headers = {"streamr-peer-id": "neighbour", "streamr-peer-type": "node"}
    return connect(f"{overlay.address}/ws?address={address}", additional_headers=headers, proxy=None)


async def say(connection: ClientConnection, message: Any) -> None:
    await connection.send(json.dumps(message))


def broadcast(message: StreamMessage) -> list[Any]:
    return [2, 0, "", message.elements()]


async def subscribe(node: NodeUnderTest, stack: AsyncExitStack) -> ClientConnection:
    client = await stack.enter_async_context(node.connect())
    assert (await ask(client, [2, 9, "s", STREAM, 0, None]))[1] == 2
    return client


def content(message: list[Any]) -> Any:
    """What a broadcast or unicast message holds."""
    return json.loads(message[3][7])


def test_a_neighbour_that_subscribes_gets_what_was_passed_on_lately_and_what_comes_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (node, overlay), AsyncExitStack() as stack:
            client, chain = await subscribe(node, stack), Chain(ALICE, STREAM)
            await say(client, publish_request(chain.next("before")))
            assert content(await hear(client)) == "before"
            async with neighbour(overlay) as peer:
                await say(peer, [2, 9, "r", STREAM, 0, None])
                assert content(await hear(peer)) == "before"
                await say(client, publish_request(chain.next("after")))
                assert content(await hear(peer)) == "after"

    in_time(scenario)


def test_a_neighbour_that_closes_one_of_two_links_gets_over_the_other_what_it_may_have_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (node, overlay), AsyncExitStack() as stack:
            client, chain = await subscribe(node, stack), Chain(ALICE, STREAM)
            await say(client, publish_request(chain.next("first")))
            assert content(await hear(client)) == "first"
            async with neighbour(overlay) as closed:
                await say(closed, [2, 9, "r", STREAM, 0, None])
                assert content(await hear(closed)) == "first", "which it throws away with the link"
                left = await stack.enter_async_context(neighbour(overlay))
            assert content(await hear(left)) == "first"

    in_time(scenario)


def test_what_neighbours_send_is_stored_and_delivered_once_and_not_sent_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (node, overlay), AsyncExitStack() as stack:
            client, chain = await subscribe(node, stack), Chain(ALICE, STREAM)
            first, second = chain.next(1), chain.next(2)
            one = await stack.enter_async_context(neighbour(overlay, "ws://127.0.0.1:2"))
            other = await stack.enter_async_context(neighbour(overlay, "ws://127.0.0.1:3"))
            for peer in (one, other):
                await say(peer, [2, 9, "r", STREAM, 0, None])
            for _ in range(3):
                await say(one, broadcast(first))
            assert content(await hear(other)) == 1
            await say(other, broadcast(first))
            await say(other, broadcast(second))
            assert content(await hear(one)) == 2, "the neighbour that sent a message does not get it back"
            assert [content(await hear(client)) for _ in range(2)] == [1, 2]
            await say(client, [2, 11, "q", STREAM, 0, 10, None])
            answers = [await hear(client) for _ in range(4)]
            assert [answer[1] for answer in answers] == [4, 1, 1, 5]
            assert overlay.counters["duplicate_messages"] == 3

    in_time(scenario)


def test_forged_and_bad_messages_of_a_neighbour_are_counted_and_not_forwarded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (node, overlay), AsyncExitStack() as stack:
            client, chain = await subscribe(node, stack), Chain(ALICE, STREAM)
            genuine = chain.next("genuine")
            async with neighbour(overlay) as peer:
                await say(peer, broadcast(genuine.replace(content='"forged"')))
                await peer.send("garbage")
                await peer.send(b"\xff")
                await say(peer, [2, 0, "", [32]])
                await say(peer, broadcast(genuine))
                assert content(await hear(client)) == "genuine", "a forgery does not keep the genuine message out"
            assert overlay.counters["refused_messages"] == 1
            assert overlay.counters["unparsable_messages"] == 3

    in_time(scenario)


def test_a_node_that_asks_for_stored_messages_is_answered_as_a_client_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (node, overlay), AsyncExitStack() as stack:
            client, chain = await subscribe(node, stack), Chain(ALICE, STREAM)
            for number in range(5):
                await say(client, publish_request(chain.next(number)))
                await hear(client)
            async with neighbour(overlay) as peer:
                await say(peer, [2, 11, "last", STREAM, 0, 2, None])
                answers = [await hear(peer) for _ in range(4)]
                assert [answer[:3] for answer in answers] == [[2, kind, "last"] for kind in (4, 1, 1, 5)]
                assert [content(answer) for answer in answers[1:3]] == [3, 4]
                await say(peer, [2, 12, "from", STREAM, 0, [0, 0], ALICE.address, None])
                assert [(await hear(peer))[1] for _ in range(7)] == [4, 1, 1, 1, 1, 1, 5]
                await say(peer, [2, 13, "range", "unknown", 0, [0, 0], [9, 0], None, None, None])
                assert await hear(peer) == [2, 6, "range", "unknown", 0]

    in_time(scenario)


@pytest.mark.parametrize(
    "request_",
    [
        [2, 11, "r", STREAM, 0, 2**64 - 1, None],
        [2, 11, "r", STREAM, 2**64 - 1, 5, None],
        [2, 12, "r", STREAM, 0, [2**64 - 1, 2**64 - 1], None, None],
        [2, 13, "r", STREAM, 0, [0, 0], [2**64 - 1, 2**64 - 1], None, None, None],
        [2, 12, "r", "\x00", 0, [0, 0], "\x00", None],
    ],
)
def test_a_resend_of_what_no_database_could_hold_does_no_harm(request_: list[Any], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (_, overlay), neighbour(overlay) as peer:
            await say(peer, request_)
            await say(peer, [2, 11, "again", STREAM, 0, 5, None])
            while (answer := await hear(peer)) != [2, 6, "again", STREAM, 0]:
                assert answer[1:3] == [6, "r"]

    in_time(scenario)


def test_a_tracker_that_names_impossible_addresses_does_no_harm(tmp_path: Path) -> None:
    impossible = ["", "x", "ws://[::1", f"ws://{'a' * 70}.b", "ws://a..b", "ws://127.0.0.1:1/?x", "\x00", "ws://\ud7ff"]

    async def scenario() -> None:
        reported: asyncio.Queue[Any] = asyncio.Queue()

        async def hostile_tracker(websocket: ServerConnection) -> None:
            await websocket.send(json.dumps([1, 2, "", STREAM, 0, impossible, 1]))
            async for text in websocket:
                reported.put_nowait(json.loads(text))

        async with serve(hostile_tracker, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with member(tmp_path, f"ws://127.0.0.1:{port}") as (node, _), AsyncExitStack() as stack:
                followed = 0
                while followed == 0:
                    status = (await reported.get())[3]
                    followed = status["streams"].get(f"{STREAM}::0", {}).get("counter", 0)
                await subscribe(node, stack)

    in_time(scenario)


def test_more_links_to_one_address_than_a_few_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (_, overlay), AsyncExitStack() as stack:
            links = [await stack.enter_async_context(neighbour(overlay)) for _ in range(5)]
            with pytest.raises(ConnectionClosed) as closed:
                await links[4].recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1002
            for link in links[:3]:
                with pytest.raises(ConnectionClosed):
                    await link.recv()
            assert (overlay.counters["links_opened"], overlay.counters["links_closed"]) == (1, 0)

    in_time(scenario)


def test_a_peer_without_an_address_is_sent_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with member(tmp_path) as (_, overlay):
            headers = {"streamr-peer-id": "a"}
            async with connect(f"{overlay.address}/ws", additional_headers=headers, proxy=None) as peer:
                with pytest.raises(ConnectionClosed, match="address not given"):
                    await peer.recv()

    in_time(scenario)


def test_nodes_stay_linked_while_their_tracker_is_away_and_a_new_one_takes_them_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        listener = listen("127.0.0.1", 0)
        tracker_url, port = f"ws://{shown_address(listener)}", listener.getsockname()[1]
        async with AsyncExitStack() as stack:
            async with running_task(TrackerServer("tracker", chance=Random(1)).run(listener)):
                one, _ = await stack.enter_async_context(member(tmp_path / "one", tracker_url))
                two, _ = await stack.enter_async_context(member(tmp_path / "two", tracker_url))
                here, there, chain = await subscribe(one, stack), await subscribe(two, stack), Chain(ALICE, STREAM)
                await say(here, publish_request(chain.next("with tracker")))
                assert content(await hear(there)) == "with tracker"
            await say(here, publish_request(chain.next("without")))
            assert content(await hear(there)) == "without"
            again = TrackerServer("tracker", chance=Random(2))
            await stack.enter_async_context(running_task(again.run(listen("127.0.0.1", port))))
            three, _ = await stack.enter_async_context(member(tmp_path / "three", tracker_url))
            newcomer = await subscribe(three, stack)
            await say(here, publish_request(chain.next("again")))
            while content(await hear(newcomer)) != "again":
                pass
            assert content(await hear(there)) == "again"

    in_time(scenario)


def test_a_peer_that_takes_less_than_it_is_sent_is_cut_off() -> None:
    async def scenario() -> None:
        async def never_read(websocket: ServerConnection) -> None:
            await websocket.wait_closed()

        async with serve(never_read, "127.0.0.1", 0, max_queue=1, close_timeout=0.1) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with dial(f"ws://127.0.0.1:{port}", {}) as websocket:
                connection = PeerConnection(websocket, max_queued_characters=1_000_000)

                async def receive(_text: str | bytes) -> None: ...

                running = asyncio.create_task(connection.run(receive))
                while not running.done():
                    connection.send("x" * 100_000)
                    await asyncio.sleep(0)

    in_time(scenario)


def test_a_node_that_listens_on_all_addresses_needs_its_public_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as node:
            settings = OverlaySettings(tracker_url=NO_TRACKER)
            with (
                listen("0.0.0.0", 0) as listener,
                pytest.raises(ConfigError, match=r"others cannot connect to .*; add --advertise URL"),
            ):
                Overlay(node.node.hub, node.node.storage, listener, settings, chance=Random(1))

    in_time(scenario)


@pytest.mark.parametrize("url", ["http://tracker", "tracker:1", "ws://"])
def test_what_is_no_address_of_a_tracker_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not ws://"):
        OverlaySettings(tracker_url=url)
