"""Requests, JSON responses, and the table of routes, which is searched from the top.

The pattern of a route is a path with names in braces. A name stands for one segment, except `{stream}`, which stands
for one or more: old clients do not encode the slashes of a stream id.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import orjson

from node.errors import ErrorCode, Refused
from runtime.http import Response

MAX_QUERY_FIELDS: Final = 50
JSON_TYPE: Final = "application/json"

_STATUS_OF: Final = {
    ErrorCode.AUTHENTICATION_FAILED: HTTPStatus.UNAUTHORIZED,
    ErrorCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str  # as sent, percent-encoded
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    peer: str = ""  # the address of the client's machine
    arguments: Mapping[str, str] = field(default_factory=dict)  # the names of the route's pattern, decoded

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty body is an empty object. Raises: `Refused`, INVALID_REQUEST."""
        try:
            parsed = orjson.loads(self.body or b"{}")
        except orjson.JSONDecodeError as problem:
            raise bad_request(f"The body is not JSON: {problem.msg}") from None
        if not isinstance(parsed, dict):
            raise bad_request("The body is not a JSON object")
        return parsed

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, 0 or more, from the query. Raises: `Refused`, INVALID_REQUEST."""
        text = self.query.get(name)
        if text is None and default is not None:
            return default
        if text is None or not (text.isascii() and text.isdecimal() and len(text) <= 16):
            raise bad_request(f"Query parameter {name!r} must be a whole number")
        return int(text)

    @property
    def bearer_token(self) -> str | None:
        """The session token of the Authorization header; None if there is none."""
        return self._credential("bearer")

    @property
    def api_key(self) -> str | None:
        """The API key of the Authorization header, `token KEY`; None if there is none."""
        return self._credential("token")

    def _credential(self, scheme: str) -> str | None:
        kind, _, credential = self.headers.get("authorization", "").partition(" ")
        return credential.strip() or None if kind.lower() == scheme else None


def json_response(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status=status, content_type=JSON_TYPE, body=orjson.dumps(value))


def error_response(problem: Refused) -> Response:
    """Some clients read `code`, others `error` or `message`."""
    status = _STATUS_OF.get(problem.code, HTTPStatus.BAD_REQUEST)
    return json_response({"error": str(problem), "code": problem.code, "message": str(problem)}, status)


def bad_request(problem: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, problem)


def parse_query(query: str) -> dict[str, str]:
    """Raises: `Refused` if it has too many fields."""
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS))
    except ValueError:
        raise bad_request("The query has too many fields") from None


Handler = Callable[[Request], Awaitable[Response]]


class Route(NamedTuple):
    method: str
    pattern: str
    handler: Handler


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [(route.method, _compile(route.pattern), route.handler) for route in routes]

    async def answer(self, request: Request) -> Response:
        """The response of the first route that matches; 405 if only the method does not, 404 if none does."""
        allowed = set()
        for method, pattern, handler in self._routes:
            found = pattern.fullmatch(request.path)
            if found and method == request.method:
                arguments = {name: unquote(text) for name, text in found.groupdict().items()}
                return await handler(replace(request, arguments=arguments))
            if found:
                allowed.add(method)
        if allowed:
            refused = json_response({"error": "Method not allowed"}, HTTPStatus.METHOD_NOT_ALLOWED)
            return replace(refused, headers={"Allow": ", ".join(sorted(allowed))})
        return json_response({"error": "Not found", "code": "NOT_FOUND"}, HTTPStatus.NOT_FOUND)


def _compile(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", pattern)
    literals, names = parts[::2], parts[1::2]
    expression = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        expression += f"(?P<{name}>{'.+' if name == 'stream' else '[^/]+'}){re.escape(literal)}"
    return re.compile(expression)
