"""Requests out of bytes, and errors out of everything else."""

from http import HTTPStatus

import pytest

from runtime.http import HttpError, HttpLimits, Response
from runtime.http.protocol import MAX_HEADERS, HttpProtocol
from tests.fuzz.http_requests import Exchange, read_all

LIMITS = HttpLimits(max_head_bytes=8192, max_target_bytes=1024, max_body_bytes=1024)
GET = b"GET /status.json?x=1 HTTP/1.1\r\nHost: localhost:7080\r\nAccept: */*\r\n\r\n"
LOGIN = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\ntoken=x"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
OK = Response(body=b"ok")


def read(data: bytes) -> list[Exchange]:
    return read_all(data, piece_bytes=len(data) or 1, limits=LIMITS)


def refused(data: bytes) -> HTTPStatus:
    last = read(data)[-1]
    assert last.status is not None, last
    return last.status


@pytest.mark.parametrize(("surplus", "status"), [(0, None), (1, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)])
def test_a_whole_head_in_one_piece_is_held_to_the_limit_to_the_byte(surplus: int, status: HTTPStatus | None) -> None:
    start, end = b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"\r\n\r\n"
    padding = b"x" * (LIMITS.max_head_bytes - len(start) - len(end) + surplus)
    assert read(start + padding + end)[-1].status == status


def test_a_request_has_its_method_target_and_headers() -> None:
    protocol = HttpProtocol(LIMITS)
    protocol.feed(GET)
    assert protocol.next_head() == ("GET", "/status.json?x=1", {"host": "localhost:7080", "accept": "*/*"})
    assert protocol.next_data() == b""
    assert protocol.next_data() == b""


@pytest.mark.parametrize(("data", "body"), [(GET, b""), (LOGIN, b"token=x"), (CHUNKED, b"abcde")])
def test_every_beginning_needs_more_and_byte_by_byte_is_the_same(data: bytes, body: bytes) -> None:
    (whole,) = read(data)
    assert (whole.body, whole.is_complete) == (body, True)
    for at in range(len(data)):
        assert not any(exchange.is_complete or exchange.status for exchange in read(data[:at]))
    assert read_all(data, piece_bytes=1, limits=LIMITS) == [whole]


def test_requests_in_one_piece_come_out_one_by_one() -> None:
    first, second, third = read(GET + LOGIN + GET)
    assert ([first], [second], [third]) == (read(GET), read(LOGIN), read(GET))


def test_what_is_no_request_after_one_that_was_answered_is_refused() -> None:
    first, second = read(GET + b"nonsense\r\n")
    assert ([first], second.status) == (read(GET), HTTPStatus.BAD_REQUEST)


@pytest.mark.parametrize(
    ("line", "keeps"),
    [(b"HTTP/1.1", True), (b"HTTP/1.0", False), (b"HTTP/1.1\r\nConnection: Close", False)],
)
def test_a_connection_stays_open_unless_http_1_0_or_close_is_requested(line: bytes, keeps: bool) -> None:
    protocol = HttpProtocol(LIMITS)
    protocol.feed(b"GET / " + line + b"\r\nHost: a\r\n\r\n")
    protocol.next_head()
    protocol.skip_received_body()
    response = protocol.encode_response(OK, {}, to_head=False, closes=False)
    assert protocol.can_go_on is keeps
    assert (b"connection: close" in response.lower()) is not keeps


def test_a_response_before_the_body_is_received_is_the_last() -> None:
    protocol = HttpProtocol(LIMITS)
    protocol.feed(LOGIN[:-1])
    protocol.next_head()
    protocol.skip_received_body()
    assert b"Connection: close\r\n" in protocol.encode_response(OK, {}, to_head=False, closes=False)
    assert not protocol.can_go_on


def test_a_body_that_is_malformed_or_too_large_ends_the_connection() -> None:
    for rest in (b"xyz\r\n", b"fff\r\n" + b"x" * 0xFFF):
        protocol = HttpProtocol(LIMITS)
        protocol.feed(CHUNKED[: CHUNKED.index(b"3\r\nabc")] + rest)
        protocol.next_head()
        protocol.skip_received_body()
        assert b"Connection: close\r\n" in protocol.encode_response(OK, {}, to_head=False, closes=False)


def test_what_follows_an_upgrade_is_kept_for_the_other_protocol() -> None:
    protocol = HttpProtocol(LIMITS)
    protocol.feed(b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst frame")
    protocol.next_head()
    protocol.skip_received_body()
    assert protocol.take_rest() == b"first frame"


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET \\ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\ncookie: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS knocks
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    assert refused(data) == HTTPStatus.BAD_REQUEST


def test_a_body_in_an_unknown_encoding_is_refused() -> None:
    head = b"POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"
    assert refused(head) == HTTPStatus.NOT_IMPLEMENTED


def test_everything_too_large_is_refused_before_it_is_held() -> None:
    too_long = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * LIMITS.max_head_bytes
    assert refused(too_long) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    many = b"".join(b"X-%d: 1\r\n" % n for n in range(MAX_HEADERS))
    assert refused(b"GET / HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n") == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert (
        refused(b"GET /" + b"x" * LIMITS.max_target_bytes + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        == HTTPStatus.REQUEST_URI_TOO_LONG
    )
    length = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    assert refused(length % (LIMITS.max_body_bytes + 1)) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert refused(length % 10**9) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert not read(length % LIMITS.max_body_bytes)[-1].is_complete
    chunk = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n"
    assert refused(chunk + b"x" * 0x401) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_after_an_error_nothing_is_read_any_more() -> None:
    protocol = HttpProtocol(LIMITS)
    protocol.feed(b"nonsense\r\n\r\n" + GET)
    for _ in range(2):
        with pytest.raises(HttpError):
            protocol.next_head()
        protocol.feed(GET)
