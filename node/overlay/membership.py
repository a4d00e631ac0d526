"""A node's membership in one network: connects a `Mesh` to sockets, a clock and a tracker.

    tracker ── instruction ──> Mesh ──> links to neighbours
    hub ── stored message ──> every neighbour except its source
    neighbour ── message ──> recent? ──> hub, which checks, stores and delivers it like a message of a client

Two nodes may dial each other at the same moment. Both use the link that the node with the lower address dialled. The
other link is closed after `DUPLICATE_GRACE_S`, so that no message in flight is lost, and one link is left if the peer
decides otherwise. A peer that closes a link at once may lose messages in flight: recent messages are sent again over
the other link.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from websockets.asyncio.connection import Connection

from node.errors import ErrorCode, Refused, StorageError
from node.hub.hub import Hub
from node.overlay.mesh import Action, Dial, HangUp, Mesh, Replay, Report, Send
from node.overlay.replay import RecentMessages, answer_resend
from node.overlay.tracker_link import TrackerLink
from node.peers.connection import PeerConnection, dial, single_headers
from node.peers.dialects import Dialect
from node.peers.handshake import Hello, Identity, PeerType, check_address, dial_url, hello_headers, read_peer_id
from node.serialization import Broadcast
from node.storage import Storage
from node.storage.queries import ResendRequest
from node.streams import StreamPart
from node.tracker.status import write_status
from protocol.errors import Unsupported, WireError
from protocol.streamr.control import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
)
from runtime.client_network import client_network

TICK_S: Final = 0.25
MAX_RESENDS: Final = 10  # that one neighbour may have running
MAX_LINKS_TO_ONE: Final = 4
DUPLICATE_GRACE_S: Final = 1.0

DUPLICATE_LINK: Final = (1002, "streamr:endpoint:duplicate-connection")
NO_SHARED_STREAMS: Final = (1000, "streamr:node:no-shared-streams")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Link:
    connection: PeerConnection
    dialect: Dialect
    address: str
    dialled_by: str
    origin: str  # the network that is charged for its messages
    resends: set[asyncio.Task[None]] = field(default_factory=set)


class Membership:
    def __init__(
        self,
        hub: Hub,
        storage: Storage,
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
        self._storage = storage
        self._recent = recent
        self._identity = identity
        self._make_dialect = make_dialect
        self._group = group
        stores_all = identity.peer_type is PeerType.STORAGE
        self._mesh = Mesh(identity.address, chance=chance, stores_all=stores_all)
        self._links: dict[str, list[_Link]] = {}  # by address; the first is used, others are being closed
        self._tracker = TrackerLink(
            tracker_url,
            identity,
            make_dialect=make_dialect,
            status=lambda: write_status(self._mesh.status()),
            connected=self._mesh.reset_counters,
            instruct=lambda instruction: self._execute(self._mesh.instruct(instruction, time.monotonic())),
            counters=self.counters,
            chance=chance,
        )

    def start(self) -> None:
        self._start(self._tracker.run(), "following the tracker")
        self._start(self._tick_forever(), "managing links")

    def want(self, part: StreamPart, *, wanted: bool) -> None:
        self._execute(self._mesh.want(part, time.monotonic(), wanted=wanted))

    def forward(self, broadcast: Broadcast, source: object) -> None:
        """Forward a message to the neighbours, except to its source."""
        part = broadcast.part
        sender, origin = (source.address, source.origin) if isinstance(source, _Link) else (None, "")
        self._execute(self._mesh.use(part, time.monotonic(), added_by=origin))
        for address in self._mesh.neighbours(part) - {sender}:
            self._send_broadcast(address, broadcast)

    async def serve(self, hello: Hello, websocket: Connection) -> None:
        """Serve a node that connected here."""
        if hello.address is None:
            await websocket.close(1002, "address not given")
            return
        await self._run_link(websocket, hello.address, hello.peer_id, dialled_by=hello.address)

    # --- links ---

    async def _dial(self, address: str) -> None:
        try:
            url = dial_url(check_address(address), self._identity.address)
            async with dial(url, hello_headers(self._identity.peer_id, self._identity.peer_type)) as websocket:
                headers = websocket.response.headers if websocket.response else None
                peer_id = read_peer_id(single_headers(headers)) if headers else address
                await self._run_link(websocket, address, peer_id, dialled_by=self._identity.address)
        except (OSError, WireError) as problem:
            log.debug("cannot connect to a neighbour; address=%s problem=%s", address, problem)
            if address not in self._links:
                self._execute(self._mesh.link_down(address, time.monotonic()))

    async def _run_link(self, websocket: Connection, address: str, peer_id: str, *, dialled_by: str) -> None:
        link = _Link(
            connection=PeerConnection(websocket),
            dialect=self._make_dialect(),
            address=address,
            dialled_by=dialled_by,
            origin=client_network(str((websocket.remote_address or (address,))[0])),
        )
        if len(self._links.get(address, ())) >= MAX_LINKS_TO_ONE:
            await link.connection.close(*DUPLICATE_LINK)
            return

        async def receive(text: str | bytes) -> None:
            await self._receive(link, text)

        self._enter(link, peer_id)
        try:
            await link.connection.run(receive)
        finally:
            self._leave(link)

    def _enter(self, link: _Link, peer_id: str) -> None:
        links = self._links.setdefault(link.address, [])
        if links and links[0].dialled_by < link.dialled_by:
            links.append(link)
        else:
            links.insert(0, link)
        if len(links) == 1:
            self.counters["links_opened"] += 1
            log.info("neighbour connected; address=%s", link.address)
            self._execute(self._mesh.link_up(link.address, peer_id, time.monotonic(), origin=link.origin))
        else:
            self._start(self._close_duplicates(link.address), "closing duplicate links")

    def _leave(self, link: _Link) -> None:
        for resend in link.resends:
            resend.cancel()
        links = self._links.get(link.address, [])
        if link in links:
            links.remove(link)
            if not links:
                del self._links[link.address]
                self.counters["links_closed"] += 1
                log.info("neighbour disconnected; address=%s", link.address)
                self._execute(self._mesh.link_down(link.address, time.monotonic()))
            else:
                self._execute(self._mesh.link_replaced(link.address))

    async def _close_duplicates(self, address: str) -> None:
        await asyncio.sleep(DUPLICATE_GRACE_S)
        for link in self._links.get(address, [])[1:]:
            await link.connection.close(*DUPLICATE_LINK)

    async def _receive(self, link: _Link, text: str | bytes) -> None:
        try:
            message = link.dialect.read_control(text)
        except WireError as problem:
            self.counters["unparsable_messages"] += 1
            log.debug("neighbour sent an invalid message; address=%s problem=%s", link.address, problem)
            return
        match message:
            case BroadcastMessage():
                await self._hub.wait_for_space()
                self._accept(message, link)
            case ResendLastRequest() | ResendFromRequest() | ResendRangeRequest():
                self._start_resend(message, link)
            case _:
                self._execute(self._mesh.receive(link.address, message, time.monotonic()))

    def _accept(self, message: BroadcastMessage, link: _Link) -> None:
        self.counters["received_messages"] += 1
        if message.stream_message.message_id in self._recent:
            self.counters["duplicate_messages"] += 1
            return
        try:
            if not self._hub.publish_relayed(message.stream_message, link, link.origin):
                self.counters["duplicate_messages"] += 1
        except Refused as problem:
            self.counters["refused_messages"] += 1
            log.debug("message from a neighbour refused; address=%s problem=%s", link.address, problem)

    def _start_resend(self, request: ResendRequest, link: _Link) -> None:
        self.counters["resends"] += 1
        if len(link.resends) >= MAX_RESENDS:
            self._refuse_resend(request, link, f"no more than {MAX_RESENDS} resends at a time are allowed")
            return
        task = self._group.create_task(self._resend(request, link), name=f"resend to {link.address}")
        link.resends.add(task)
        task.add_done_callback(link.resends.discard)

    async def _resend(self, request: ResendRequest, link: _Link) -> None:
        try:
            async for response in answer_resend(request, self._storage):
                self._mesh.use_link(link.address, time.monotonic())
                await link.connection.wait_for_space()
                self._send_if_possible(link, response)
        except StorageError as problem:
            log.error("resend failed; problem=%s", problem)  # noqa: TRY400 - the text says it all
            self._refuse_resend(request, link, "storage failed")

    def _refuse_resend(self, request: ResendRequest, link: _Link, problem: str) -> None:
        self._send_if_possible(
            link,
            ErrorResponse(
                request_id=request.request_id,
                error_message=f"Resend failed: {problem}",
                error_code=ErrorCode.RESEND_FAILED,
            ),
        )

    def _send_if_possible(self, link: _Link, message: ControlMessage) -> None:
        try:
            link.connection.send(link.dialect.write_control(message))
        except Unsupported:
            self.counters["unsupported_messages"] += 1

    # --- the actions of the mesh ---

    def _execute(self, actions: list[Action]) -> None:
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
                    self._tracker.report()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work, name=name)

    def _hang_up(self, address: str) -> None:
        for link in self._links.pop(address, []):
            self._start(link.connection.close(*NO_SHARED_STREAMS), f"hanging up {address}")

    def _send_control(self, address: str, message: ControlMessage) -> None:
        for link in self._links.get(address, [])[:1]:
            self._send_if_possible(link, message)

    def _send_broadcast(self, address: str, broadcast: Broadcast) -> None:
        for link in self._links.get(address, [])[:1]:
            try:
                link.connection.send(link.dialect.write_broadcast(broadcast))
                self.counters["sent_messages"] += 1
            except Unsupported:
                self.counters["unsupported_messages"] += 1

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._execute(self._mesh.tick(time.monotonic()))
