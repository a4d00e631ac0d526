"""The server's side of one HTTP/1.1 connection, without I/O: bytes in, heads and bodies out; responses in, bytes out.

h11 parses heads, frames bodies and encodes responses. Each line of a head is checked before h11 gets it, because h11
accepts what two programs could read as different requests: lines that end in LF alone, folded headers, several lengths.
The result does not depend on how the bytes are cut into pieces.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

import h11

from runtime.http.messages import HttpError, HttpLimits, Response

MAX_HEADERS: Final = 100
MAX_LENGTH_DIGITS: Final = 20

_REQUEST_LINE: Final = re.compile(rb"[A-Z]{1,16} /[!-~]* HTTP/1\.[01]\r\n")
_HEADER_LINE: Final = re.compile(rb"[!-9;-~]+:[\t -~\x80-\xff]*\r\n")
_HEAD_END: Final = b"\r\n"
_ONLY_ONCE: Final = frozenset({"authorization", "content-length", "cookie", "host", "origin", "transfer-encoding"})
_STARTS: Final = range(ord("A"), ord("Z") + 1)  # the first byte of a method


class Head(NamedTuple):
    method: str
    target: str
    headers: Mapping[str, str]  # names in lower case


class HttpProtocol:
    """Parses the bytes passed to `feed`, and encodes responses. After an HttpError only a response may follow."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._http = self._next_exchange()
        self._received = bytearray()  # of the next head
        self._checked_bytes = 0
        self._lines = 0
        self._body_bytes = 0
        self._is_body_read = True
        self._error: HttpError | None = None

    def feed(self, data: bytes) -> None:
        if self._is_body_read:
            self._received += data
        else:
            self._http.receive_data(data)

    def next_head(self) -> Head | None:
        """The head of the next request; None: more bytes are needed. Raises: HttpError."""
        try:
            return self._read_head()
        except HttpError as error:
            self._error = error
            raise

    def next_data(self) -> bytes | None:
        """The next piece of the body; empty at its end; None: more bytes are needed. Raises: HttpError."""
        if self._is_body_read:
            return b""
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._error = HttpError(_status_of(error), str(error))
            raise self._error from None
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, h11.Data):
            self._is_body_read = True
            self._received += self._http.trailing_data[0]
            return b""
        self._body_bytes += len(event.data)
        self._check_length(self._body_bytes)
        return bytes(event.data)

    @property
    def holds_body_back(self) -> bool:
        """Whether the client waits for a 100 Continue before it sends the body."""
        return self._http.they_are_waiting_for_100_continue

    @property
    def can_go_on(self) -> bool:
        """Whether another request may follow, once the response is sent."""
        return self._error is None and self._is_body_read and self._http.our_state is h11.DONE

    def skip_received_body(self) -> None:
        """Drop what has been received of the body."""
        with suppress(HttpError):
            while self._error is None and self.next_data():
                pass

    def take_rest(self) -> bytes:
        """What followed the request; it belongs to the protocol that the connection is upgraded to."""
        rest = bytes(self._received)
        self._received.clear()
        return rest

    def encode_continue(self) -> bytes:
        return self._encode(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))

    def encode_response(self, response: Response, headers: Mapping[str, str], *, to_head: bool, closes: bool) -> bytes:
        """The whole response, or its head where the body is a generator. A body that was not read closes, too."""
        named = {} if response.content_type is None else {"Content-Type": response.content_type}
        named |= {**headers, **response.headers}
        if isinstance(response.body, bytes):
            named["Content-Length"] = str(len(response.body))
        if closes or not self._is_body_read or self._error is not None:
            named["Connection"] = "close"
        reason = HTTPStatus(response.status).phrase.encode()
        events: list[h11.Event] = [
            h11.Response(status_code=response.status, headers=list(named.items()), reason=reason)
        ]
        if isinstance(response.body, bytes) and not to_head:
            events.append(h11.Data(data=response.body))
        if isinstance(response.body, bytes) or to_head:
            events.append(h11.EndOfMessage())
        return self._encode(*events)

    def encode_data(self, piece: bytes) -> bytes:
        return self._encode(h11.Data(data=piece))

    def encode_end(self) -> bytes:
        return self._encode(h11.EndOfMessage())

    def _read_head(self) -> Head | None:
        if self._error is not None:
            raise self._error
        if self._http.our_state is h11.DONE:
            self._http = self._next_exchange()
        if self._received and self._received[0] not in _STARTS:
            raise _bad("this is no HTTP request")
        while (end := self._received.find(b"\n", self._checked_bytes, self._limits.max_head_bytes) + 1) > 0:
            line = bytes(self._received[self._checked_bytes : end])
            self._checked_bytes = end
            if line == _HEAD_END:
                return self._parse_head()
            self._check_line(line)
        if len(self._received) >= self._limits.max_head_bytes:
            raise _too_large(f"the request head is above {self._limits.max_head_bytes} bytes")
        return None

    def _check_line(self, line: bytes) -> None:
        self._lines += 1
        if (_REQUEST_LINE if self._lines == 1 else _HEADER_LINE).fullmatch(line) is None:
            raise _bad("the request line is malformed" if self._lines == 1 else "a header is malformed")
        if self._lines - 1 > MAX_HEADERS:
            raise _too_large(f"the request has more than {MAX_HEADERS} headers")

    def _parse_head(self) -> Head:
        head = bytes(self._received[: self._checked_bytes])
        rest = bytes(self._received[self._checked_bytes :])
        self._received.clear()
        self._checked_bytes = self._lines = self._body_bytes = 0
        self._http.receive_data(head)
        _check_repeated(head)
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise HttpError(_status_of(error), str(error)) from None
        assert isinstance(event, h11.Request)
        parsed = Head(
            method=event.method.decode("ascii"),
            target=event.target.decode("ascii"),
            headers={name.decode("ascii"): value.decode("latin-1") for name, value in event.headers},
        )
        self._check_head(parsed)
        self._is_body_read = False
        if rest:
            self._http.receive_data(rest)
        return parsed

    def _check_head(self, head: Head) -> None:
        if len(head.target) > self._limits.max_target_bytes:
            raise HttpError(
                HTTPStatus.REQUEST_URI_TOO_LONG, f"the target is above {self._limits.max_target_bytes} bytes"
            )
        length = head.headers.get("content-length", "0")
        if "transfer-encoding" in head.headers and "content-length" in head.headers:
            raise _bad("Content-Length and Transfer-Encoding exclude each other")
        if len(length) > MAX_LENGTH_DIGITS:
            raise _bad("Content-Length is malformed")
        self._check_length(int(length))

    def _check_length(self, length: int) -> None:
        if length > self._limits.max_body_bytes:
            problem = f"the body is above {self._limits.max_body_bytes} bytes"
            self._error = HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
            raise self._error

    def _next_exchange(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.max_head_bytes)

    def _encode(self, *events: h11.Event) -> bytes:
        return b"".join(self._http.send(event) or b"" for event in events)


def _check_repeated(head: bytes) -> None:
    """h11 accepts equal lengths twice, or in a list; here each of these headers is allowed once, with one value."""
    seen: set[str] = set()
    for line in head.split(b"\r\n")[1:]:
        name = line.partition(b":")[0].decode("ascii").lower()
        if name in seen:
            raise _bad(f"the header {name} is repeated")
        if name in _ONLY_ONCE:
            seen.add(name)
        if name == "content-length" and b"," in line:
            raise _bad("Content-Length is malformed")


def _status_of(error: h11.RemoteProtocolError) -> HTTPStatus:
    return HTTPStatus(error.error_status_hint or HTTPStatus.BAD_REQUEST)


def _bad(problem: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, problem)


def _too_large(problem: str) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem)
