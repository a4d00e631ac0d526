"""HTTP and websocket connections: bytes in, requests and messages out, everything bounded."""

from node.http.messages import JSON_TYPE, Request, Route, Router, bad_request, json_response
from node.http.server import HttpServer, Upgrade, WebsocketEndpoint
from node.http.websocket import WebsocketConnection
from runtime.http import Response

__all__ = [
    "JSON_TYPE",
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
