"""A node inside the test's own event loop, and plain clients for it."""

import asyncio
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect

from node import Limits, Node, NodeConfig
from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from tests.support.patience import PATIENCE_S
from tests.support.within import within

ALICE = Signer(b"\x11" * 32)
BOB = Signer(b"\x22" * 32)
MODERN = "?controlLayerVersion=2&messageLayerVersion=32"


@asynccontextmanager
async def running_node(data: Path, config: NodeConfig | None = None, **limits: Any) -> AsyncIterator["NodeUnderTest"]:
    """A node on a free port, with these limits."""
    base = config or NodeConfig()
    node = Node(replace(base, listen=("127.0.0.1", 0), data=data, limits=Limits(**limits)))
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        node.run(ready=lambda host, port: address.set_result(f"{host}:{port}"), stop=stop), name="node"
    )
    try:
        yield NodeUnderTest(node=node, address=await address)
    finally:
        stop.set()
        await within(PATIENCE_S, running)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class NodeUnderTest:
    node: Node
    address: str

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One call; a path is under the REST interface unless it is one of the few that are not."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        url = f"http://{self.address}" + (path if path in ("/", "/metrics", "/healthz") else "/api/v1" + path)
        login = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(url, data=data, headers={**login, **(headers or {})}, method=method)
        return await asyncio.to_thread(_fetch, request)

    async def log_in(self, signer: Signer) -> str:
        challenge = (await self.call("POST", f"/login/challenge/{signer.address}")).json()
        answer = {
            "challenge": challenge,
            "signature": signer.sign_challenge(challenge["challenge"]),
            "address": signer.address,
        }
        token: str = (await self.call("POST", "/login/response", answer)).json()["token"]
        return token

    async def make_stream(self, token: str, stream_id: str, **settings: object) -> str:
        answer = await self.call("POST", "/streams", {"id": stream_id, **settings}, token=token)
        assert answer.status == 200, answer
        return stream_id

    async def grant(self, token: str, stream_id: str, operation: str, user: str | None) -> None:
        whom = {"anonymous": True} if user is None else {"user": user}
        path = f"/streams/{quote(stream_id, safe='')}/permissions"
        answer = await self.call("POST", path, {"operation": operation, **whom}, token=token)
        assert answer.status == 200, answer

    async def all_gone(self) -> None:
        """Wait until the node has noticed that no client is left."""
        async with asyncio.timeout(PATIENCE_S):
            while self.node.counters.websocket_connections:  # noqa: ASYNC110 - the node sends no notice of this
                await asyncio.sleep(0)

    def connect(self, query: str = MODERN) -> "connect":
        return connect(f"ws://{self.address}/api/v1/ws{query}", max_size=None, compression=None)


def _fetch(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return Answer(response.status, response.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.read())


async def ask(connection: ClientConnection, request: Sequence[Any] | dict[str, Any] | str) -> Any:
    """Send one request and give the next message that comes."""
    await connection.send(request if isinstance(request, str) else json.dumps(request))
    return await hear(connection)


async def hear(connection: ClientConnection) -> Any:
    return json.loads(await within(PATIENCE_S, connection.recv()))


class Chain:
    """Signed messages, one after the other."""

    def __init__(self, signer: Signer, stream_id: str, *, start_ms: int = 1_700_000_000_000, chain: str = "c") -> None:
        self._signer, self._stream_id, self._chain = signer, stream_id, chain
        self._times = itertools.count(start_ms)
        self._previous: MessageRef | None = None

    def next(self, content: object) -> StreamMessage:
        message_id = MessageID(self._stream_id, 0, next(self._times), 0, self._signer.address, self._chain)
        message = sign_message(StreamMessage(message_id, json.dumps(content), self._previous), self._signer)
        self._previous = message_id.ref
        return message


def publish_request(message: StreamMessage, request_id: str = "p") -> list[Any]:
    return [2, 8, request_id, json.loads(message.serialize()), None]
