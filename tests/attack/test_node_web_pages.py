"""A web page in a browser near the node: DNS rebinding, and requests from a foreign origin."""

import asyncio
import http.client
import json
import random
import socket
from contextlib import closing
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from node import NodeConfig
from node.access.policy import Access
from node.config import StreamConfig
from node.streams import PUBLIC, Stream
from node.tracker.server import TrackerServer
from tests.support.node_bench import MODERN, ask, running_node
from tests.support.patience import PATIENCE_S

APP = "https://app.example"
STREAM = StreamConfig(stream=Stream(id="plant"), subscribers=(PUBLIC,))
GUARDED = ("/", "/metrics", "/healthz", "/api/v1/streams/plant", "/api/v1/streams/plant/data/partitions/0/last")


def fetch(address: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7070", "localhost.evil.example", ""])
def test_a_name_that_a_page_points_at_the_node_gets_nothing(tmp_path: Path, host: str) -> None:
    async def attack() -> None:
        async with running_node(tmp_path, NodeConfig(streams=(STREAM,))) as node:
            for path in GUARDED:
                status, _, body = await asyncio.to_thread(fetch, node.address, "GET", path, {"Host": host})
                assert (status, "access.hosts" in body.decode()) == (403, True), path
            with pytest.raises(InvalidStatus):
                async with connect(f"ws://{node.address}/api/v1/ws{MODERN}", additional_headers={"Host": host}):
                    pass

    asyncio.run(attack())


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://evil.example:7070", "http://127.0.0.1"])
def test_a_page_of_a_foreign_origin_gets_nothing(tmp_path: Path, origin: str) -> None:
    async def attack() -> None:
        async with running_node(tmp_path, NodeConfig(streams=(STREAM,))) as node:
            for method in ("GET", "POST", "OPTIONS"):
                path = "/api/v1/streams/plant/data"
                status, headers, body = await asyncio.to_thread(fetch, node.address, method, path, {"Origin": origin})
                assert (status, "access.origins" in body.decode()) == (403, True)
                assert "access-control-allow-origin" not in headers
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://{node.address}/api/v1/ws{MODERN}", origin=origin):  # type: ignore[arg-type]
                    pass
            assert refused.value.response.status_code == 403

    asyncio.run(attack())


def test_pages_of_an_allowed_origin_and_programs_are_served(tmp_path: Path) -> None:
    config = NodeConfig(streams=(STREAM,), access=Access(origins=frozenset({APP})))
    subscribe = [2, 9, "s", "plant", 0, None]

    async def serve() -> None:
        async with running_node(tmp_path, config) as node:
            for origin in (APP, None):
                async with connect(f"ws://{node.address}/api/v1/ws{MODERN}", origin=origin) as client:  # type: ignore[arg-type]
                    assert (await ask(client, subscribe))[1] == 2
            asking = {"Origin": APP, "Access-Control-Request-Headers": "authorization, streamr-client"}
            status, headers, _ = await asyncio.to_thread(fetch, node.address, "OPTIONS", "/api/v1/streams", asking)
            assert (status, headers["access-control-allow-origin"]) == (204, APP)
            assert headers["access-control-allow-headers"] == "authorization, streamr-client"
            path = "/api/v1/streams/plant"
            status, headers, body = await asyncio.to_thread(fetch, node.address, "GET", path, {"Origin": APP})
            assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, APP, "Origin")
            assert json.loads(body)["id"] == "plant"
            status, headers, _ = await asyncio.to_thread(fetch, node.address, "GET", path, {})
            assert (status, "access-control-allow-origin" in headers) == (200, False)

    asyncio.run(serve())


def test_web_pages_reach_neither_the_tracker_nor_its_topology() -> None:
    async def attack() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            tracker = asyncio.create_task(TrackerServer("t", chance=random.Random(1)).run(listener))
            try:
                for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
                    answer = await asyncio.to_thread(fetch, address, "GET", "/topology", headers)
                    assert answer[0] == 403
                assert (await asyncio.to_thread(fetch, address, "GET", "/topology", {}))[0] == 200
            finally:
                tracker.cancel()
                await asyncio.wait([tracker])

    asyncio.run(attack())
