"""A port that peers connect to: it reads who they are, says who is here, and hands each to its endpoint."""

import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from node.peers.connection import SOCKET_OPTIONS, single_headers
from node.peers.handshake import Hello, read_hello
from protocol.errors import WireError

__all__ = ["PeerServer", "listen", "shown_address"]

MAX_PEERS: Final = 1_000

ServePeer = Callable[[Hello, ServerConnection], Awaitable[None]]


def listen(host: str, port: int) -> socket.socket:
    """Raises: OSError, which says where, if it cannot listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, f"{host}:{port}") from None


def shown_address(listener: socket.socket) -> str:
    """HOST:PORT of where it listens."""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class PeerServer:
    """`endpoints` by path, without the `/ws` that peers append; `pages` are JSON for people and programs, by path."""

    def __init__(
        self,
        own_headers: Mapping[str, str],
        endpoints: Mapping[str, ServePeer],
        pages: Mapping[str, Callable[[], Any]],
        max_peers: int = MAX_PEERS,
    ) -> None:
        self._own_headers = own_headers
        self._endpoints = endpoints
        self._pages = pages
        self._max_peers = max_peers
        self._peers = 0

    async def start(self, listener: socket.socket) -> Server:
        return await serve(
            self._serve_peer,
            sock=listener,
            process_request=self._answer_or_upgrade,
            process_response=self._say_hello,
            **SOCKET_OPTIONS,
        )

    def _answer_or_upgrade(self, websocket: ServerConnection, request: Request) -> Response | None:
        """An answer to what is no peer; None to go on with the handshake."""
        page = self._pages.get(request.path.partition("?")[0])
        if page is not None:
            return _json_response(page())
        try:
            hello = read_hello(request.path, single_headers(request.headers))
        except WireError as problem:
            return websocket.respond(HTTPStatus.BAD_REQUEST, f"{problem}\n")
        if hello.endpoint not in self._endpoints:
            return websocket.respond(HTTPStatus.NOT_FOUND, "no such endpoint\n")
        if self._peers >= self._max_peers:
            return websocket.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many peers\n")
        return None

    def _say_hello(self, _websocket: ServerConnection, _request: Request, response: Response) -> None:
        for name, value in self._own_headers.items():
            response.headers[name] = value

    async def _serve_peer(self, websocket: ServerConnection) -> None:
        if websocket.request is None:
            raise AssertionError("a connection that is served has had its handshake")
        hello = read_hello(websocket.request.path, single_headers(websocket.request.headers))
        self._peers += 1
        try:
            await self._endpoints[hello.endpoint](hello, websocket)
        finally:
            self._peers -= 1


def _json_response(value: Any) -> Response:
    body = (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
    return Response(HTTPStatus.OK, "OK", headers, body)
