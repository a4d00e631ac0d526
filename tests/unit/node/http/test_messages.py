"""Requests as the rest of the node sees them."""

import pytest

from node.errors import ErrorCode, Refused
from node.http import Request
from node.http.messages import error_response, parse_query


def request(**fields: object) -> Request:
    return Request(method="GET", path="/", **fields)  # type: ignore[arg-type]


def test_the_token_of_a_bearer_is_found_and_nothing_else_is() -> None:
    tokens = [
        request(headers={"authorization": text}).bearer_token
        for text in ("Bearer abc", "bearer  abc ", "Basic abc", "Bearer", "Bearer ", "abc")
    ]
    assert tokens == ["abc", "abc", None, None, None, None]
    assert request().bearer_token is None


@pytest.mark.parametrize("body", [b"[]", b"3", b"{", b"\xff", b"null"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        request(body=body).json()


def test_an_empty_body_is_an_empty_object() -> None:
    assert request().json() == {}


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1e3", "9" * 17, "\u0663"])
def test_a_number_is_whole_and_not_too_large(text: str) -> None:
    with pytest.raises(Refused, match="'count' must be a whole number"):
        request(query={"count": text}).number("count", 1)


def test_a_missing_number_has_its_default_or_is_refused() -> None:
    assert request().number("count", 7) == 7
    assert request(query={"count": "12"}).number("count", 7) == 12
    with pytest.raises(Refused):
        request().number("count")


def test_a_query_is_fields_and_they_are_few() -> None:
    assert parse_query("x=1&y=a%26b&z") == {"x": "1", "y": "a&b", "z": ""}
    with pytest.raises(Refused, match="too many fields"):
        parse_query("a=1&" * 60)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.NOT_FOUND, 404),
        (ErrorCode.PERMISSION_DENIED, 403),
        (ErrorCode.AUTHENTICATION_FAILED, 401),
        (ErrorCode.FUTURE_TIMESTAMP, 400),
        (ErrorCode.INVALID_REQUEST, 400),
    ],
)
def test_every_refusal_has_its_status(code: ErrorCode, status: int) -> None:
    response = error_response(Refused(code, "why"))

    assert response.status == status
    assert response.body == f'{{"error":"why","code":"{code}","message":"why"}}'.encode()
