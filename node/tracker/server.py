"""The server of a tracker, on its own port.

| path | for |
|---|---|
| `/` and `/ws` | nodes that send tracker messages, version 1 or 2 |
| `/network` and `/network/ws` | old nodes, which send frames of the network layer |
| `/topology` | operators: every partition, its nodes and their neighbours, as JSON |
| `/healthz` | health checks |

Nodes of the two kinds do not connect to each other; a Headgate node in both networks forwards messages between them.
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

from websockets.asyncio.server import ServerConnection

from node.peers.connection import PeerConnection
from node.peers.dialects import NETWORK_LAYER_PATH, PLAIN_PATH, Dialect, NetworkLayer, Plain
from node.peers.handshake import Hello, PeerType, hello_headers
from node.peers.server import PeerServer
from node.tracker.status import part_key
from node.tracker.topology import DEFAULT_MAX_NEIGHBOURS
from node.tracker.tracker import REPORT_S, Outgoing, Peer, Tracker
from protocol.errors import Unsupported, WireError

log = logging.getLogger(__name__)


class _Connected(NamedTuple):
    connection: PeerConnection
    dialect: Dialect


class _Network:
    """The nodes that use one dialect, and their tracker."""

    def __init__(self, tracker: Tracker, make_dialect: Callable[[], Dialect]) -> None:
        self._tracker = tracker
        self._make_dialect = make_dialect
        self._connected: dict[str, _Connected] = {}

    async def serve(self, hello: Hello, websocket: ServerConnection) -> None:
        peer = Peer(peer_id=hello.peer_id, address=hello.address, is_storage=hello.peer_type is PeerType.STORAGE)
        connected = _Connected(PeerConnection(websocket), self._make_dialect())
        if peer.peer_id in self._connected:
            self._connected[peer.peer_id].connection.abort()
        self._connected[peer.peer_id] = connected
        self._send(self._tracker.connect(peer, time.monotonic()))
        if peer.is_storage:
            asyncio.get_running_loop().call_later(REPORT_S, lambda: self._send(self._tracker.tick(time.monotonic())))
        log.info("node connected; id=%s address=%s", peer.peer_id, peer.address)

        async def receive(text: str | bytes) -> None:
            if self._connected.get(peer.peer_id) is connected:
                self._receive(peer.peer_id, connected.dialect, text)

        try:
            await connected.connection.run(receive)
        finally:
            if self._connected.get(peer.peer_id) is connected:
                del self._connected[peer.peer_id]
                self._send(self._tracker.disconnect(peer.peer_id, time.monotonic()))
                log.info("node disconnected; id=%s", peer.peer_id)

    @property
    def counters(self) -> Counter[str]:
        return self._tracker.counters

    def describe(self) -> dict[str, Any]:
        return {
            "nodes": {peer.peer_id: peer.address for peer in self._tracker.peers},
            "partitions": {
                part_key(part): {node: sorted(links) for node, links in self._tracker.topology(part).items()}
                for part in self._tracker.parts
            },
            "counters": dict(self._tracker.counters),
        }

    def _receive(self, peer_id: str, dialect: Dialect, text: str | bytes) -> None:
        try:
            message = dialect.read_tracker(text)
        except WireError as problem:
            self._tracker.counters["unparsable_messages"] += 1
            log.debug("node sent an invalid message; id=%s problem=%s", peer_id, problem)
            return
        self._send(self._tracker.receive(peer_id, message, time.monotonic()))

    def _send(self, outgoing: Iterable[Outgoing]) -> None:
        for peer_id, message in outgoing:
            connected = self._connected.get(peer_id)
            if connected is None:
                continue
            try:
                connected.connection.send(connected.dialect.write_tracker(message))
            except Unsupported:
                self._tracker.counters["unsupported_messages"] += 1


class TrackerServer:
    def __init__(self, own_id: str, *, chance: Random, max_neighbours: int = DEFAULT_MAX_NEIGHBOURS) -> None:
        self._own_id = own_id
        self._chance = chance
        self._max_neighbours = max_neighbours
        self._plain = _Network(self._make_tracker(), Plain)
        self._network_layer = _Network(self._make_tracker(), lambda: NetworkLayer(own_id))

    async def run(self, listener: socket.socket) -> None:
        """Serve until cancelled."""
        server = PeerServer(
            hello_headers(self._own_id, PeerType.TRACKER),
            endpoints={PLAIN_PATH: self._plain.serve, NETWORK_LAYER_PATH: self._network_layer.serve},
            pages={"/topology": self._describe, "/healthz": lambda: "ok"},
        )
        async with await server.start(listener) as running:
            await running.serve_forever()

    @property
    def counters(self) -> Counter[str]:
        """The sums of the counters of both dialects."""
        return self._plain.counters + self._network_layer.counters

    def _make_tracker(self) -> Tracker:
        return Tracker(chance=self._chance, new_request_id=lambda: str(uuid4()), max_neighbours=self._max_neighbours)

    def _describe(self) -> dict[str, Any]:
        return {"plain": self._plain.describe(), "network": self._network_layer.describe()}
