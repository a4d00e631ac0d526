"""Which function answers which request."""

import asyncio

import pytest

from node.http import Request, Response, Route, Router


def router(*routes: tuple[str, str]) -> Router:
    def answering(name: str) -> Route:
        method, pattern = name.split()

        async def answer(request: Request) -> Response:
            return Response(body=f"{pattern} {dict(request.arguments)}".encode())

        return Route(method, pattern, answer)

    return Router([answering(" ".join(route)) for route in routes])


ROUTER = router(
    ("GET", "/streams/{stream}/publisher/{address}"),
    ("GET", "/streams/{stream}/publishers"),
    ("GET", "/streams/{stream}"),
    ("PUT", "/streams/{stream}"),
    ("GET", "/a.b"),
)


def answer(method: str, path: str) -> Response:
    return asyncio.run(ROUTER.answer(Request(method=method, path=path)))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/streams/0x1%2Fa%2Fb", "/streams/{stream} {'stream': '0x1/a/b'}"),
        ("/streams/0x1/a/b", "/streams/{stream} {'stream': '0x1/a/b'}"),
        ("/streams/0x1/a/publishers", "/streams/{stream}/publishers {'stream': '0x1/a'}"),
        (
            "/streams/0x1%2Fa/publisher/0x2",
            "/streams/{stream}/publisher/{address} {'stream': '0x1/a', 'address': '0x2'}",
        ),
        ("/streams/a%20%C3%A4", "/streams/{stream} {'stream': 'a ä'}"),
    ],
)
def test_a_stream_id_is_found_encoded_or_not(path: str, expected: str) -> None:
    assert answer("GET", path).body == expected.encode()


def test_what_fits_nothing_is_not_found() -> None:
    assert answer("GET", "/nothing").status == 404
    assert answer("GET", "/aXb").status == 404
    assert answer("GET", "/streams/").status == 404


def test_the_response_to_a_wrong_method_lists_the_allowed_ones() -> None:
    refused = answer("DELETE", "/streams/a")

    assert refused.status == 405
    assert refused.headers["Allow"] == "GET, PUT"
