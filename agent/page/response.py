"""What is answered, and the headers that every answer carries."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

__all__ = ["Response", "encode_head", "json_response", "text_response"]

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
ALWAYS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`body` is all of it, or pieces as they come about; then it ends with the connection."""

    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes | AsyncIterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def text_response(status: HTTPStatus, text: str, **headers: str) -> Response:
    """Names of headers with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, body=f"{text}\n".encode(), headers=named)


def json_response(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status=status, content_type="application/json", body=json.dumps(value).encode())


def encode_head(response: Response, *, keeps_alive: bool) -> bytes:
    """Everything up to the body. Values come from this package, never from a client."""
    headers = {"Content-Type": response.content_type, **ALWAYS, **response.headers}
    if isinstance(response.body, bytes):
        headers["Content-Length"] = str(len(response.body))
    headers["Connection"] = "keep-alive" if keeps_alive else "close"
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")
