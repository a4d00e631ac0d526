"""The tracker over real sockets, word for word: versions 1 and 2, the network layer, and what is no node at all."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any
from urllib.error import HTTPError

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from node.peers.server import listen, shown_address
from node.tracker.server import TrackerServer
from tests.support.patience import PATIENCE_S


@asynccontextmanager
async def running_tracker() -> AsyncIterator[str]:
    """HOST:PORT of a tracker."""
    listener = listen("127.0.0.1", 0)
    task = asyncio.create_task(TrackerServer("the-tracker", chance=Random(1)).run(listener))
    try:
        yield shown_address(listener)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def with_tracker(scenario: Callable[[str], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), running_tracker() as address:
            await scenario(address)

    asyncio.run(run())


def peer(address: str, name: str, path: str = "/ws", **headers: str) -> connect:
    all_headers = {"streamr-peer-id": name, **{key.replace("_", "-"): value for key, value in headers.items()}}
    return connect(f"ws://{address}{path}", additional_headers=all_headers, proxy=None)


def websocket_peer(address: str, name: str, peer_type: str = "node") -> connect:
    return peer(address, name, f"/ws?address=ws://{name}:1", streamr_peer_type=peer_type)


async def say(websocket: ClientConnection, message: Any) -> None:
    await websocket.send(json.dumps(message))


async def hear(websocket: ClientConnection) -> Any:
    return json.loads(await websocket.recv())


def status(counter: int = 0, linked: tuple[str, ...] = ()) -> dict[str, Any]:
    entry = {"inboundNodes": list(linked), "outboundNodes": list(linked), "counter": counter}
    return {"streams": {"stream::3": entry}, "started": "now", "rtts": {}, "location": {}}


def test_a_conversation_in_version_1() -> None:
    async def scenario(address: str) -> None:
        async with (
            websocket_peer(address, "a") as a,
            websocket_peer(address, "b") as b,
            websocket_peer(address, "storage", "storage") as storage,
        ):
            assert a.response is not None
            assert a.response.headers["streamr-peer-id"] == "the-tracker"
            assert a.response.headers["streamr-peer-type"] == "tracker"
            await say(storage, [1, 1, "s0", {"streams": {}}])
            await say(storage, [1, 3, "q0", "stream", 3])
            assert (await hear(storage))[:3] == [1, 4, "q0"]  # so its status was received
            await say(a, [1, 1, "s1", status()])
            assert (await hear(storage))[3:] == ["stream", 3, ["ws://a:1"], 1]
            version, kind, request_id, *rest = await hear(a)
            assert (version, kind, rest) == (1, 2, ["stream", 3, ["ws://storage:1"], 1])
            assert request_id
            await say(b, [1, 1, "s2", status()])
            assert (await hear(b))[3:] == ["stream", 3, ["ws://a:1", "ws://storage:1"], 1]
            await say(b, [1, 3, "q", "stream", 3])
            assert await hear(b) == [1, 4, "q", "stream", 3, ["ws://storage:1"]]

    with_tracker(scenario)


def test_a_conversation_in_version_2() -> None:
    async def scenario(address: str) -> None:
        async with peer(address, "a", "/") as a, peer(address, "b") as b:
            await say(a, [2, 1, "s1", {**status(), "singleStream": True}])
            await say(b, [2, 1, "s2", {"streamPart": {"id": "stream", "partition": 3, "neighbors": [], "counter": 0}}])
            assert await hear(b) == [2, 7, "s2", "stream", 3]
            assert (await hear(b))[3:] == ["stream", 3, ["a"], 1]
            version, kind, _, *rest = await hear(a)
            assert (version, kind, rest) == (2, 2, ["stream", 3, ["b"], 1])
            await say(a, [2, 5, "q", {"peerId": "a"}, "b", "rtcOffer", {"description": "x"}])
            assert await hear(b) == [2, 5, "q", {"peerId": "a"}, "b", "rtcOffer", {"description": "x"}]
            await say(a, [2, 5, "q", {"peerId": "a"}, "unknown", "rtcOffer", {}])
            assert await hear(a) == [2, 6, "q", "RTC_UNKNOWN_PEER", "unknown"]

    with_tracker(scenario)


def test_a_conversation_in_frames_of_the_network_layer() -> None:
    async def scenario(address: str) -> None:
        async with (
            peer(address, "a", "/network/ws?address=ws://a:1", streamr_peer_type="node") as a,
            peer(address, "b", "/network?address=ws://b:1", streamr_peer_type="storage") as b,
        ):
            about = {"streamId": "stream", "streamPartition": 3}
            await say(b, {"version": "19.1.0", "code": 0, "payload": {"streams": {}}})
            await say(b, {"version": "19.1.0", "code": 2, "payload": about})
            assert (await hear(b))["code"] == 3  # so its status was received
            await say(a, {"version": "19.1.0", "code": 0, "payload": status()})
            assert (await hear(b))["payload"] == {**about, "nodeAddresses": ["ws://a:1"], "counter": 1}
            frame = await hear(a)
            assert (frame["code"], frame["payload"]["nodeAddresses"]) == (1, ["ws://b:1"])
            await say(a, {"version": "19.1.0", "code": 2, "payload": about})
            frame = await hear(a)
            assert (frame["code"], frame["payload"]) == (3, {**about, "nodeAddresses": ["ws://b:1"]})
            await say(a, ["4.4.3", 2, "a", "stream"])
            assert (await hear(a))[1:] == [3, "the-tracker", "stream", ["ws://b:1"]]

    with_tracker(scenario)


def test_nodes_of_different_dialects_do_not_meet() -> None:
    async def scenario(address: str) -> None:
        async with (
            websocket_peer(address, "a") as a,
            peer(address, "old", "/network/ws?address=ws://old:1") as old,
            peer(address, "rtc") as rtc,
            websocket_peer(address, "b") as b,
        ):
            await say(old, {"version": "19.1.0", "code": 0, "payload": status()})
            await say(rtc, [2, 1, "", {**status(), "singleStream": True}])
            await say(a, [1, 1, "", status()])
            await say(b, [1, 1, "", status()])
            assert (await hear(a))[5] == ["ws://b:1"]

    with_tracker(scenario)


def test_when_a_node_leaves_the_others_are_notified() -> None:
    async def scenario(address: str) -> None:
        async with websocket_peer(address, "a") as a:
            await say(a, [1, 1, "", status()])
            async with websocket_peer(address, "b") as b:
                await say(b, [1, 1, "", status()])
                assert (await hear(a))[5] == ["ws://b:1"]
            assert (await hear(a))[5:] == [[], 2]

    with_tracker(scenario)


def test_garbage_is_answered_by_silence_and_counted() -> None:
    async def scenario(address: str) -> None:
        async with websocket_peer(address, "a") as a:
            for garbage in ("x", "[]", "[1,1]", "[1,1,0,{}]", "{}", "[9,1]", '[1,1,"",null]', "[" * 10_000):
                await a.send(garbage)
            await a.send(b"\xff\xfe")
            await say(a, [1, 1, "", {"streams": {"bad": {}}}])
            await say(a, [1, 3, "q", "stream", 0])
            assert await hear(a) == [1, 4, "q", "stream", 0, []]
            body = await asyncio.to_thread(fetch, f"http://{address}/topology")
            assert body["plain"]["counters"]["unparsable_messages"] == 9
            assert body["plain"]["counters"]["bad_statuses"] == 1

    with_tracker(scenario)


def test_a_frame_that_is_too_large_ends_its_connection_and_no_other() -> None:
    async def scenario(address: str) -> None:
        async with websocket_peer(address, "a") as a, websocket_peer(address, "b") as b:
            with suppress(ConnectionClosed):
                await a.send("x" * 3_000_000)
            with pytest.raises(ConnectionClosed):
                await a.recv()
            await say(b, [1, 3, "q", "stream", 0])
            assert await hear(b) == [1, 4, "q", "stream", 0, []]

    with_tracker(scenario)


@pytest.mark.parametrize(
    ("path", "name", "expected"), [("/ws", "", 400), ("/elsewhere", "a", 404), ("/ws?address=http://x", "a", 400)]
)
def test_what_is_no_node_is_turned_away(path: str, name: str, expected: int) -> None:
    async def scenario(address: str) -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with peer(address, name, path):
                pass
        assert refused.value.response.status_code == expected

    with_tracker(scenario)


def test_a_node_that_connects_again_takes_the_place_of_its_lost_connection() -> None:
    async def scenario(address: str) -> None:
        async with websocket_peer(address, "a") as lost, websocket_peer(address, "a") as again:
            with pytest.raises(ConnectionClosed):
                await lost.recv()
            await say(again, [1, 3, "q", "stream", 0])
            assert await hear(again) == [1, 4, "q", "stream", 0, []]

    with_tracker(scenario)


def test_the_topology_is_public() -> None:
    async def scenario(address: str) -> None:
        async with websocket_peer(address, "a") as a, websocket_peer(address, "b") as b:
            for each in (a, b):
                await say(each, [1, 1, "", status()])
                if each is b:
                    await hear(b)
            body = await asyncio.to_thread(fetch, f"http://{address}/topology")
            assert body["plain"]["partitions"] == {"stream::3": {"a": ["b"], "b": ["a"]}}
            assert body["plain"]["nodes"] == {"a": "ws://a:1", "b": "ws://b:1"}
            assert await asyncio.to_thread(fetch, f"http://{address}/healthz") == "ok"
            with pytest.raises(HTTPError):
                await asyncio.to_thread(fetch, f"http://{address}/other")

    with_tracker(scenario)


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
        return json.loads(reply.read())
