"""A websocket to a node goes through the proxy that the environment names."""

import asyncio

import pytest

from agent.errors import LinkDown
from agent.publish.node_connection import NodeConnection
from agent.publish.node_rest import NodeSettings
from agent.publish.node_url import NodeUrl

PROXY_VARIABLES = ("all_proxy", "http_proxy", "https_proxy", "no_proxy", "ws_proxy")


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES)):
        monkeypatch.delenv(name, raising=False)
    assert asyncio.run(_request_to_proxy(monkeypatch)) == b"CONNECT node.invalid:7070 HTTP/1.1\r\n"


async def _request_to_proxy(monkeypatch: pytest.MonkeyPatch) -> bytes:
    requests = asyncio.Queue[bytes]()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.put_nowait(await reader.readline())
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(LinkDown, match="403"):
            await NodeConnection.open(NodeSettings(url=NodeUrl.parse("ws://node.invalid:7070")), session=None)
    return requests.get_nowait()
