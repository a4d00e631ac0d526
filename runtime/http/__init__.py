"""The HTTP/1.1 server of the status page, the node and the collector: strict, bounded, made for hostile clients.

    socket ──► connection ──► protocol ──► Request ──► service.answer ──► Response ──► protocol ──► socket
               deadlines      h11, no I/O   streaming    the caller's      bytes or
               TLS            checks heads  body         code              a stream

`server` accepts connections, and `connection_table` decides which one is closed when all are in use. Every wait, buffer
and number has a limit (`HttpLimits`). A service may take a connection over for another protocol (`Upgrade`).
"""

from runtime.http.connection_table import HttpCounts
from runtime.http.messages import Body, ClientGone, HttpError, HttpLimits, Request, Response, Upgrade
from runtime.http.server import HttpServer, Service

__all__ = [
    "Body",
    "ClientGone",
    "HttpCounts",
    "HttpError",
    "HttpLimits",
    "HttpServer",
    "Request",
    "Response",
    "Service",
    "Upgrade",
]
