"""This node as a member of one network: the shell that gives a `Mesh` its sockets, its clock and its tracker.

    tracker <── status ── Mesh ── instruction ──> Dial ──> neighbours
    hub ── message taken ──> every neighbour but the one it came from
    neighbour ── message ──> recent? ──> hub, which checks, stores and passes it on as if a client had published it

Two nodes that were told of each other dial each other at the same moment. Of the two links the one stays that the
node with the lower address dialled; both ends come to the same result without asking.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple
from uuid import uuid4

from websockets.asyncio.connection import Connection

from node.errors import Refused
from node.hub import Hub
from node.overlay.backoff import Backoff
from node.overlay.connection import PeerConnection, dial, single_headers
from node.overlay.dialects import Dialect
from node.overlay.handshake import Hello, PeerType, dial_url, hello_headers, read_peer_id
from node.overlay.mesh import Action, Dial, HangUp, Mesh, Replay, Report, Send
from node.overlay.recent import RecentMessages
from node.serialization import Broadcast
from node.streams import StreamPart
from node.tracker.status import write_status
from protocol.errors import Unsupported, WireError
from protocol.streamr.control import BroadcastMessage, ControlMessage
from protocol.streamr.tracker import InstructionMessage, StatusMessage

__all__ = ["Identity", "Membership"]

TICK_S: Final = 0.25
STATUS_PAUSE_S: Final = 0.1  # what changes within it is told at once
STATUS_INTERVAL_S: Final = 30.0

DUPLICATE_LINK: Final = (1002, "streamr:endpoint:duplicate-connection")
NO_SHARED_STREAMS: Final = (1000, "streamr:node:no-shared-streams")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How others know this node."""

    peer_id: str
    address: str
    peer_type: PeerType


class _Link(NamedTuple):
    connection: PeerConnection
    dialect: Dialect
    address: str
    dialled_by: str


class Membership:
    def __init__(
        self,
        hub: Hub,
        recent: RecentMessages,
        identity: Identity,
        *,
        tracker_url: str,
        make_dialect: Callable[[], Dialect],
        chance: Random,
        group: asyncio.TaskGroup,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._hub = hub
        self._recent = recent
        self._identity = identity
        self._tracker_url = tracker_url
        self._make_dialect = make_dialect
        self._chance = chance
        self._group = group
        keeps_everything = identity.peer_type is PeerType.STORAGE
        self._mesh = Mesh(identity.address, chance=chance, keeps_everything=keeps_everything)
        self._links: dict[str, _Link] = {}
        self._has_news = asyncio.Event()

    @property
    def links(self) -> int:
        return len(self._links)

    def start(self) -> None:
        self._group.create_task(self._follow_tracker(), name=f"following the tracker {self._tracker_url}")
        self._group.create_task(self._tick_forever(), name="keeping links")

    def want(self, part: StreamPart, *, wanted: bool) -> None:
        self._act(self._mesh.want(part, time.monotonic(), wanted=wanted))

    def spread(self, broadcast: Broadcast, source: object) -> None:
        """Pass a message on to the neighbours, but not to the one that it came from."""
        part = StreamPart(*broadcast.message.message_id[:2])
        self._act(self._mesh.use(part, time.monotonic()))
        came_from = source.address if isinstance(source, _Link) else None
        for address in self._mesh.neighbours(part) - {came_from}:
            self._send_broadcast(address, broadcast)

    async def serve(self, hello: Hello, websocket: Connection) -> None:
        """Talk to a node that connected here."""
        if hello.address is None:
            await websocket.close(1002, "address not given")
            return
        await self._carry(websocket, hello.address, hello.peer_id, dialled_by=hello.address)

    # --- links ---

    async def _dial(self, address: str) -> None:
        url = dial_url(address, self._identity.address)
        try:
            async with dial(url, hello_headers(self._identity.peer_id, self._identity.peer_type)) as websocket:
                headers = websocket.response.headers if websocket.response else None
                peer_id = read_peer_id(single_headers(headers)) if headers else address
                await self._carry(websocket, address, peer_id, dialled_by=self._identity.address)
        except (OSError, WireError) as problem:
            log.debug("neighbour not reached; address=%s problem=%s", address, problem)
            if address not in self._links:
                self._act(self._mesh.link_down(address, time.monotonic()))

    async def _carry(self, websocket: Connection, address: str, peer_id: str, *, dialled_by: str) -> None:
        link = _Link(PeerConnection(websocket), self._make_dialect(), address, dialled_by)
        if not await self._enter(link, peer_id):
            return

        async def receive(text: str | bytes) -> None:
            await self._receive(link, text)

        try:
            await link.connection.run(receive)
        finally:
            if self._links.get(address) is link:
                del self._links[address]
                log.info("neighbour gone; address=%s", address)
                self._act(self._mesh.link_down(address, time.monotonic()))

    async def _enter(self, link: _Link, peer_id: str) -> bool:
        """Whether the link is the one to keep of those to the same address."""
        existing = self._links.get(link.address)
        if existing is not None and existing.dialled_by < link.dialled_by:
            await link.connection.close(*DUPLICATE_LINK)
            return False
        self._links[link.address] = link
        if existing is None:
            log.info("neighbour connected; address=%s", link.address)
            self._act(self._mesh.link_up(link.address, peer_id, time.monotonic()))
        else:
            link.connection.take_over(existing.connection)
            self._start(existing.connection.close(*DUPLICATE_LINK), "closing a duplicate link")
        return True

    async def _receive(self, link: _Link, text: str | bytes) -> None:
        try:
            message = link.dialect.read_control(text)
        except WireError as problem:
            self.counters["unparsable_messages"] += 1
            log.debug("neighbour sent what is no message; address=%s problem=%s", link.address, problem)
            return
        if isinstance(message, BroadcastMessage):
            await self._hub.room()
            self._take(message, link)
        else:
            self._act(self._mesh.receive(link.address, message, time.monotonic()))

    def _take(self, message: BroadcastMessage, link: _Link) -> None:
        self.counters["received_messages"] += 1
        if message.stream_message.message_id in self._recent:
            self.counters["duplicate_messages"] += 1
            return
        try:
            if not self._hub.publish_relayed(message.stream_message, link):
                self.counters["duplicate_messages"] += 1
        except Refused as problem:
            self.counters["refused_messages"] += 1
            log.debug("neighbour sent a message that is refused; address=%s problem=%s", link.address, problem)

    # --- what the mesh wants done ---

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Dial(address):
                    self._start(self._dial(address), f"dialling {address}")
                case HangUp(address):
                    self._hang_up(address)
                case Send(address, message):
                    self._send_control(address, message)
                case Replay(address, part):
                    for broadcast in self._recent.of(part):
                        self._send_broadcast(address, broadcast)
                case Report():
                    self._has_news.set()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work, name=name)

    def _hang_up(self, address: str) -> None:
        link = self._links.pop(address, None)
        if link is not None:
            self._start(link.connection.close(*NO_SHARED_STREAMS), f"hanging up {address}")

    def _send_control(self, address: str, message: ControlMessage) -> None:
        link = self._links.get(address)
        if link is not None:
            link.connection.send(link.dialect.write_control(message))

    def _send_broadcast(self, address: str, broadcast: Broadcast) -> None:
        link = self._links.get(address)
        if link is None:
            return
        try:
            link.connection.send(link.dialect.write_broadcast(broadcast))
            self.counters["sent_messages"] += 1
        except Unsupported:
            self.counters["unsupported_messages"] += 1

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._act(self._mesh.tick(time.monotonic()))

    # --- the tracker ---

    async def _follow_tracker(self) -> None:
        """Stay connected to the tracker. While it cannot be reached, links stay as they are."""
        backoff = Backoff(self._chance)
        url = dial_url(self._tracker_url, self._identity.address)
        while True:
            try:
                async with dial(url, hello_headers(self._identity.peer_id, self._identity.peer_type)) as websocket:
                    backoff.reset()
                    log.info("tracker connected; url=%s", self._tracker_url)
                    await self._talk_to_tracker(PeerConnection(websocket))
                log.warning("tracker gone, links stay as they are; url=%s", self._tracker_url)
            except OSError as problem:
                log.debug("tracker not reached; url=%s problem=%s", self._tracker_url, problem)
            await asyncio.sleep(backoff.next_delay_s())

    async def _talk_to_tracker(self, connection: PeerConnection) -> None:
        dialect = self._make_dialect()
        self._mesh.forget_counters()
        reporting = asyncio.create_task(self._report_forever(connection, dialect))

        async def receive(text: str | bytes) -> None:
            self._take_instruction(dialect, text)

        try:
            await connection.run(receive)
        finally:
            reporting.cancel()
            await asyncio.wait([reporting])

    def _take_instruction(self, dialect: Dialect, text: str | bytes) -> None:
        try:
            message = dialect.read_tracker(text)
        except WireError as problem:
            self.counters["unparsable_messages"] += 1
            log.debug("tracker sent what is no tracker message; problem=%s", problem)
            return
        if isinstance(message, InstructionMessage):
            self.counters["instructions"] += 1
            self._act(self._mesh.instruct(message, time.monotonic()))

    async def _report_forever(self, connection: PeerConnection, dialect: Dialect) -> None:
        while True:
            self._has_news.clear()
            status = StatusMessage(version=1, request_id=str(uuid4()), status=write_status(self._mesh.status()))
            connection.send(dialect.write_tracker(status))
            await asyncio.sleep(STATUS_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), STATUS_INTERVAL_S)
