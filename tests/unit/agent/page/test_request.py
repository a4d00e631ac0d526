"""Requests out of bytes, and refusals out of everything else."""

from http import HTTPStatus

import pytest

from agent.page.request import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_TARGET_BYTES,
    Refusal,
    Request,
    RequestReader,
)

GET = b"GET /status.json?x=1 HTTP/1.1\r\nHost: localhost:7080\r\nAccept: */*\r\n\r\n"
LOGIN = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\ntoken=x"


def read(data: bytes) -> Request | Refusal | None:
    reader = RequestReader()
    reader.feed(data)
    return reader.next()


def refused(data: bytes) -> HTTPStatus:
    answer = read(data)
    assert isinstance(answer, Refusal), answer
    return answer.status


def test_a_request_has_its_method_path_and_headers() -> None:
    assert read(GET) == Request(
        method="GET", path="/status.json", headers={"host": "localhost:7080", "accept": "*/*"}, keeps_alive=True
    )


def test_a_form_comes_with_its_body() -> None:
    request = read(LOGIN)
    assert isinstance(request, Request)
    assert request.body == b"token=x"


@pytest.mark.parametrize("data", [GET, LOGIN])
def test_every_beginning_wants_more_and_byte_by_byte_is_the_same(data: bytes) -> None:
    reader = RequestReader()
    for at in range(len(data)):
        assert read(data[:at]) is None
        assert reader.next() is None
        reader.feed(data[at : at + 1])
    assert reader.next() == read(data)
    assert reader.is_empty


def test_requests_in_one_piece_come_out_one_by_one() -> None:
    reader = RequestReader()
    reader.feed(GET + LOGIN + GET[:10])
    first, second, third = reader.next(), reader.next(), reader.next()
    assert (first, second, third) == (read(GET), read(LOGIN), None)
    assert not reader.is_empty


@pytest.mark.parametrize(
    ("line", "keeps"),
    [(b"HTTP/1.1", True), (b"HTTP/1.0", False), (b"HTTP/1.1\r\nConnection: Close", False)],
)
def test_a_connection_goes_on_unless_it_is_old_or_asked_to_end(line: bytes, keeps: bool) -> None:
    request = read(b"GET / " + line + b"\r\nHost: a\r\n\r\n")
    assert isinstance(request, Request)
    assert request.keeps_alive is keeps


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
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS knocks
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    assert refused(data) == HTTPStatus.BAD_REQUEST


def test_a_body_of_unknown_length_is_refused() -> None:
    head = b"POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
    assert refused(head) == HTTPStatus.NOT_IMPLEMENTED


def test_everything_too_large_is_refused_before_it_is_held() -> None:
    too_long = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MAX_HEAD_BYTES
    assert refused(too_long) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    many = b"".join(b"X-%d: 1\r\n" % n for n in range(MAX_HEADERS))
    assert refused(b"GET / HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n") == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert (
        refused(b"GET /" + b"x" * MAX_TARGET_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n") == HTTPStatus.REQUEST_URI_TOO_LONG
    )
    length = b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    assert refused(length % (MAX_BODY_BYTES + 1)) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert refused(length % 10**9) == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert read(length % MAX_BODY_BYTES) is None


def test_after_a_refusal_nothing_is_read_any_more() -> None:
    reader = RequestReader()
    reader.feed(b"nonsense\r\n\r\n" + GET)
    assert isinstance(reader.next(), Refusal)
    reader.feed(GET)
    assert isinstance(reader.next(), Refusal)
