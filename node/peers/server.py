"""The server for peers: performs the handshake and passes each connection to its endpoint."""

import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from random import Random
from typing import Any, Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from node.peers.connection import SOCKET_OPTIONS, single_headers
from node.peers.handshake import Hello, read_hello
from protocol.errors import WireError
from runtime.web_origin import KnownHosts, is_loopback_host, own_hosts

MAX_PEERS: Final = 1_000
ServePeer = Callable[[Hello, ServerConnection], Awaitable[None]]


def listen(host: str, port: int) -> socket.socket:
    """Raises: OSError, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, f"{host}:{port}") from None


def shown_address(listener: socket.socket) -> str:
    """HOST:PORT of a listening socket."""
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
            process_response=self._add_own_headers,
            **SOCKET_OPTIONS,
        )

    def _answer_or_upgrade(self, websocket: ServerConnection, request: Request) -> Response | None:
        """The response to a request that is not of a peer; None to continue the handshake."""
        if (problem := self._refusal(websocket, request)) is not None:
            return websocket.respond(HTTPStatus.FORBIDDEN, f"{problem}\n")
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

    def _refusal(self, websocket: ServerConnection, request: Request) -> str | None:
        """The reason to refuse a request of a web page, which the Origin or Host header shows; None for a peer."""
        if "Origin" in request.headers:
            return "web pages cannot be peers"
        own = str(websocket.local_address[0])
        hosts = KnownHosts(names=own_hosts(own), accepts_addresses=True)
        if is_loopback_host(own) and not all(map(hosts.knows, request.headers.get_all("Host") or [""])):
            return "this node does not accept this host name"
        return None

    def _add_own_headers(self, _websocket: ServerConnection, _request: Request, response: Response) -> None:
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


def new_chance() -> Random:
    """Randomness for delays and the choice of neighbours; not for secrets."""
    return Random(secrets.randbits(64))  # noqa: S311
