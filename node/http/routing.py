"""Which function answers which request: a plain table, read from the top.

A pattern is a path with names in braces. A name stands for one segment, except `{stream}`, which stands for one or
more: old clients do not encode the slashes of a stream id.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

from node.http.messages import Request, json_response
from runtime.http import Response

Handler = Callable[[Request], Awaitable[Response]]


class Route(NamedTuple):
    method: str
    pattern: str
    handler: Handler


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [(route.method, _compile(route.pattern), route.handler) for route in routes]

    async def answer(self, request: Request) -> Response:
        """The response of the first route that fits; 405 where only the method does not, 404 where nothing does."""
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
