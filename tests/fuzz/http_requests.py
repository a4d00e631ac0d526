"""Any bytes, in pieces of any size, give the same requests and errors, in bounded memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from runtime.http import HttpError, HttpLimits, Response
from runtime.http.protocol import MAX_HEADERS, HttpProtocol

LIMITS = HttpLimits(max_head_bytes=1024, max_target_bytes=200, max_body_bytes=512)
SEEDS = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: headgate=abc\r\n\r\n",
    b"HEAD /metrics?x HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\ntoken=x",
    b"POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
]
PIECES = (1, 7, 4096)


@dataclass
class Exchange:
    """One request as it was received, with the error that ended it."""

    method: str = ""
    target: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False
    is_last: bool = False
    status: HTTPStatus | None = None


def fuzz_one(data: bytes) -> None:
    first, *others = (read_all(data, piece_bytes=size, limits=LIMITS) for size in PIECES)
    assert all(other == first for other in others), data
    for exchange in first:
        _check(exchange)


def read_all(data: bytes, *, piece_bytes: int, limits: HttpLimits) -> list[Exchange]:
    """Every request of a connection, each of them answered, until an error or the last one that was begun."""
    protocol, found = HttpProtocol(limits), list[Exchange]()
    pieces = [data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes)]
    for piece in pieces:
        protocol.feed(piece)
        try:
            while _advance(protocol, found):
                pass
        except HttpError as error:
            found.append(Exchange(status=error.status))
            answer(protocol)
            return found
        if found and found[-1].is_last:
            return found
    return found


def answer(protocol: HttpProtocol) -> bytes:
    return protocol.encode_response(Response(), {}, to_head=False, closes=False)


def _advance(protocol: HttpProtocol, found: list[Exchange]) -> bool:
    """Read the next head or piece of a body. Whether there may be more without more bytes."""
    if not found or found[-1].is_complete:
        head = protocol.next_head()
        if head is not None:
            found.append(Exchange(*head))
        return head is not None
    data = protocol.next_data()
    if data is None:
        return False
    found[-1].body += data
    found[-1].is_complete = not data
    if not data:
        answer(protocol)
        found[-1].is_last = not protocol.can_go_on
    return not found[-1].is_last


def _check(exchange: Exchange) -> None:
    if exchange.method:
        assert exchange.target.startswith("/")
        assert exchange.target.isascii()
    assert len(exchange.headers) <= MAX_HEADERS
    assert sum(map(len, exchange.headers)) < LIMITS.max_head_bytes
    assert len(exchange.body) <= LIMITS.max_body_bytes
