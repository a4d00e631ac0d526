"""HTTP/1.1 requests out of bytes: no I/O, strict, and bounded whatever comes.

Only what a status page needs is understood: a head of `MAX_HEAD_BYTES`, and a body of known length for a form. What is
anything else becomes a `Refusal`, after which nothing more is read: the connection is to be closed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

__all__ = ["MAX_BODY_BYTES", "MAX_HEAD_BYTES", "Refusal", "Request", "RequestReader"]

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_BODY_BYTES: Final = 1024
MAX_TARGET_BYTES: Final = 1024
MAX_HEADERS: Final = 64

HEAD_END: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t -~\x80-\xff]*")
_LENGTH: Final = re.compile(r"[0-9]{1,10}")
_ONLY_ONCE: Final = frozenset({"authorization", "content-length", "cookie", "host"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str  # as it was sent, without the query
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""
    keeps_alive: bool = True  # whether another request may follow


class Refusal(NamedTuple):
    """What came is no request that is answered here."""

    status: HTTPStatus
    problem: str


class RequestReader:
    """Feed it bytes as they come; take requests out. It holds one head and one body at most, and what was fed last."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._refusal: Refusal | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is between two requests."""
        return not self._pending

    def feed(self, data: bytes) -> None:
        self._pending += data

    def next(self) -> Request | Refusal | None:
        """None: more bytes are needed."""
        if self._refusal is not None:
            return self._refusal
        taken = self._take()
        if isinstance(taken, Refusal):
            self._refusal = taken
            self._pending.clear()
        return taken

    def _take(self) -> Request | Refusal | None:
        end = self._pending.find(HEAD_END, 0, MAX_HEAD_BYTES)
        if end < 0:
            is_too_long = len(self._pending) >= MAX_HEAD_BYTES
            return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long") if is_too_long else None
        head = _parse_head(bytes(self._pending[:end]))
        if isinstance(head, Refusal):
            return head
        length = _body_length(head)
        if isinstance(length, Refusal):
            return length
        start = end + len(HEAD_END)
        if len(self._pending) < start + length:
            return None
        body = bytes(self._pending[start : start + length])
        del self._pending[: start + length]
        return Request(
            method=head.method, path=head.path, headers=head.headers, body=body, keeps_alive=head.keeps_alive
        )


def _parse_head(head: bytes) -> Request | Refusal:
    first, *lines = head.split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(first)
    if matched is None:
        return _bad("the request line makes no sense")
    method, target, minor = matched[1].decode(), matched[2].decode(), matched[3]
    if len(target) > MAX_TARGET_BYTES:
        return Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
    headers = _parse_headers(lines)
    if isinstance(headers, Refusal):
        return headers
    if minor == b"1" and "host" not in headers:
        return _bad("the header Host is missing")
    return Request(
        method=method,
        path=target.partition("?")[0],
        headers=headers,
        keeps_alive=minor == b"1" and "close" not in headers.get("connection", "").lower(),
    )


def _parse_headers(lines: list[bytes]) -> dict[str, str] | Refusal:
    if len(lines) > MAX_HEADERS:
        return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        raw_name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(raw_name) is None or _VALUE.fullmatch(value) is None:
            return _bad("a header makes no sense")
        name = raw_name.decode().lower()
        if name in headers and name in _ONLY_ONCE:
            return _bad(f"the header {name} comes twice")
        headers[name] = value.strip(b" \t").decode("latin-1")
    return headers


def _body_length(head: Request) -> int | Refusal:
    """A body whose length two readers could take for different ones is never accepted."""
    if "transfer-encoding" in head.headers:
        return Refusal(HTTPStatus.NOT_IMPLEMENTED, "a body must say its length")
    text = head.headers.get("content-length", "0")
    if _LENGTH.fullmatch(text) is None:
        return _bad("the length of the body makes no sense")
    if int(text) > MAX_BODY_BYTES:
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {MAX_BODY_BYTES} bytes")
    return int(text)


def _bad(problem: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, problem)
