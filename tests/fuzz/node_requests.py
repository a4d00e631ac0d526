"""Any bytes from a client give an answer in the versions it asked for, and never a fault of the node."""

import asyncio
import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from node import Node, NodeConfig
from node.clients.session import ClientSession
from node.errors import ErrorCode
from node.serialization import LEGACY_API, Versions
from node.streams import PUBLIC, Grant, Operation, Stream
from protocol.ethereum.signer import Signer
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message

if TYPE_CHECKING:
    from node.http import WebsocketConnection

_SIGNER = Signer(b"\x11" * 32)
_SIGNED = sign_message(StreamMessage(MessageID("s", 0, 1, 0, _SIGNER.address, "c"), "{}"), _SIGNER)
_PLAIN = StreamMessage(MessageID("s", 0, 2, 0, "", "c"), "{}")
SEEDS = [
    json.dumps(request).encode()
    for request in (
        [2, 8, "r", json.loads(_SIGNED.serialize()), None],
        [2, 8, "r", json.loads(_PLAIN.serialize()), "token"],
        [1, 8, json.loads(_PLAIN.serialize(31)), None],
        [2, 9, "r", "s", 0, None],
        [2, 10, "r", "s", 0],
        [2, 11, "r", "s", 0, 5, None],
        [2, 12, "r", "s", 0, [1, 0], None, None],
        [2, 13, "r", "s", 0, [1, 0], [9, 9], "p", "c", None],
        {"type": "publish", "stream": "s", "msg": "{}", "ts": 5, "authKey": "k"},
        {"type": "subscribe", "stream": "s"},
        {"type": "resend", "stream": "s", "sub": "1", "resend_from": 1, "resend_to": 5},
    )
]


class _Connection:
    """What the node sends, kept until it is looked at."""

    peer = "127.0.0.1"

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    def send_frames(self, frames: bytes) -> None:
        """Messages of the stream: another test reads these."""

    async def drain(self) -> None:
        pass


class _Target:
    """A node without sockets, with one stream that is everybody's, and a client in each of three dialects."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        data = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, data)
        node = Node(NodeConfig(data=Path(data)))
        self._hub = node.hub
        grants = [Grant("s", PUBLIC, operation) for operation in Operation]
        self._loop.run_until_complete(node.registry.declare([(Stream(id="s"), grants)]))
        self._connections = [_Connection() for _ in range(3)]
        dialects = (Versions(2, 32), Versions(1, 31), LEGACY_API)
        self._sessions = [
            ClientSession(cast("WebsocketConnection", connection), versions, node.services)
            for connection, versions in zip(self._connections, dialects, strict=True)
        ]

    def feed(self, data: bytes) -> None:
        self._loop.run_until_complete(self._answer(data))
        for connection in self._connections:
            for answer in connection.sent:
                assert ErrorCode.ERROR_WHILE_HANDLING_REQUEST not in json.dumps(answer), data
            connection.sent.clear()

    async def _answer(self, data: bytes) -> None:
        async with asyncio.TaskGroup() as group:
            for session in self._sessions:
                session.answer(data, group)
        await self._hub.store_pending()


_targets: list[_Target] = []


def fuzz_one(data: bytes) -> None:
    if not _targets:
        _targets.append(_Target())
    _targets[0].feed(data)
