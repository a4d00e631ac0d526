"""Any bytes, in pieces of any size, give the same requests and refusals, in bounded memory."""

from agent.page.request import MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, Refusal, Request, RequestReader

SEEDS = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: headgate=abc\r\n\r\n",
    b"HEAD /metrics?x HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\ntoken=x",
    b"POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]
PIECES = (1, 7, 4096)


def fuzz_one(data: bytes) -> None:
    first, *others = (_read(data, size) for size in PIECES)
    assert all(other == first for other in others), data


def _read(data: bytes, piece_bytes: int) -> list[Request | Refusal]:
    reader, found = RequestReader(), list[Request | Refusal]()
    for start in range(0, len(data), piece_bytes):
        reader.feed(data[start : start + piece_bytes])
        while (request := reader.next()) is not None:
            found.append(request)
            if isinstance(request, Refusal):
                return found
            _check(request)
    return found


def _check(request: Request) -> None:
    assert request.path.startswith("/")
    assert request.path.isascii()
    assert len(request.headers) <= MAX_HEADERS
    assert sum(map(len, request.headers)) < MAX_HEAD_BYTES
    assert len(request.body) <= MAX_BODY_BYTES
