"""HTTP and websocket connections: bytes in, requests and messages out, everything bounded."""

from node.http.messages import Request, Response, bad_request, json_response
from node.http.routing import Route, Router
from node.http.server import HttpServer, Upgrade, WebsocketEndpoint
from node.http.websocket import WebsocketConnection

__all__ = [
    "HttpServer",
    "Request",
    "Response",
    "Route",
    "Router",
    "Upgrade",
    "WebsocketConnection",
    "WebsocketEndpoint",
    "bad_request",
    "json_response",
]
