"""A websocket to a node, in control version 2: log in, open, send and receive control messages."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from agent.errors import LinkDown, Rejected
from agent.publish.node_rest import NodeRest, NodeSession, NodeSettings
from agent.publish.node_url import NodeUrl
from protocol.ethereum.signer import Signer
from protocol.streamr.control import ControlMessage
from runtime.errors import connection_error_text

MAX_FRAME_BYTES = 4 * 1024 * 1024
MAX_WAITING_FRAMES = 256  # received and not yet read; beyond it the node has to wait
CLOSE_TIMEOUT_S = 2.0
_BECAUSE_OF_MESSAGE = (1003, 1007, 1008, 1009)  # unsupported, not UTF-8, against a policy, too big


class NodeConnection:
    """One open websocket. Without a session it is anonymous, and `token` is None."""

    def __init__(self, websocket: ClientConnection, session: NodeSession | None, url: NodeUrl) -> None:
        self.session = session
        self.url = url
        self._websocket = websocket

    @classmethod
    async def open(cls, settings: NodeSettings, session: NodeSession | None) -> "NodeConnection":
        """Open a connection with a session, which may be reused for later connections. Raises: LinkDown."""
        try:
            tls = settings.url.tls_context(settings.ca_file)
            if session is not None:
                await asyncio.to_thread(session.token)
            websocket = await connect(
                settings.url.websocket,
                ssl=tls,
                compression=None,  # costs more on a small device than it saves
                open_timeout=settings.deadline_s,
                ping_interval=settings.deadline_s / 2,
                ping_timeout=settings.deadline_s / 2,
                close_timeout=CLOSE_TIMEOUT_S,
                max_size=MAX_FRAME_BYTES,
                max_queue=MAX_WAITING_FRAMES,
                proxy=True if _names_a_proxy(os.environ) else None,
            )
        except (OSError, InvalidHandshake, InvalidURI, Rejected) as problem:
            raise LinkDown(f"{settings.url}: {connection_error_text(problem, settings.url.host)}") from problem
        return cls(websocket, session, settings.url)

    async def token(self) -> str | None:
        """Raises: LinkDown."""
        if self.session is None:
            return None
        try:
            return self.session.token() if self.session.is_fresh else await asyncio.to_thread(self.session.token)
        except Rejected as problem:
            raise LinkDown(str(problem)) from problem

    async def send(self, message: ControlMessage) -> None:
        """Raises: LinkDown."""
        await self.send_text(message.serialize().encode())

    async def send_text(self, text: bytes) -> None:
        """A control message that is already serialised. Raises: LinkDown."""
        try:
            await self._websocket.send(text, text=True)
        except ConnectionClosed as closed:
            raise self._down(closed) from closed

    async def frames(self) -> AsyncIterator[bytes]:
        """The frames from the node. Always ends with LinkDown."""
        try:
            while True:
                yield await self._websocket.recv(decode=False)
        except ConnectionClosed as closed:
            raise self._down(closed) from closed

    async def close(self) -> None:
        await self._websocket.close()

    def _down(self, closed: ConnectionClosed) -> LinkDown:
        code = None if closed.rcvd is None else closed.rcvd.code
        return LinkDown(f"{self.url}: {closed}", by_message=code in _BECAUSE_OF_MESSAGE)


def _names_a_proxy(environment: Iterable[str]) -> bool:
    """Only then does the library have to look for one, for which it imports a megabyte of modules."""
    return any(name.lower().endswith("_proxy") for name in environment)


def new_session(settings: NodeSettings, signer: Signer) -> NodeSession:
    """A session that logs in when the first token is requested. Raises: OSError if `ca_file` cannot be used."""
    tls = settings.url.tls_context(settings.ca_file)
    return NodeSession(NodeRest(settings.url, timeout_s=settings.deadline_s, tls=tls), signer)
