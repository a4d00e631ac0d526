"""Which request gets which answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from agent.page.access import Access
from agent.page.history import SAMPLE_S, History
from agent.page.looks import Looks, reasons_against
from agent.page.request import Request
from agent.page.response import Response, json_response, text_response

__all__ = ["Page"]

MAX_WATCHERS: Final = 8
GUESS_DELAY_S: Final = 1.0
RETRY_MS: Final = 2000  # when a browser asks again after the agent was away
WRONG_TOKEN: Final = b"<!-- problem -->", b'<p class="problem" role="alert">This is not the token.</p>'
ASSETS: Final = {
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
FOLDER: Final = Path(__file__).parent / "assets"
HTML: Final = "text/html; charset=utf-8"
CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


class Page:
    def __init__(self, access: Access, looks: Looks, history: History) -> None:
        self._access = access
        self._looks = looks
        self._history = history
        self._watchers = 0
        self._open: dict[str, Callable[[], Awaitable[Response]]] = {"/healthz": self._health, "/readyz": self._ready}
        self._guarded: dict[str, Callable[[], Awaitable[Response]]] = {
            "/": self._index,
            "/history.json": self._past,
            "/metrics": self._metrics,
            "/status.json": self._status,
            "/updates": self._updates,
        }

    async def answer(self, request: Request) -> Response:
        if not self._access.knows_host(request):
            return text_response(HTTPStatus.MISDIRECTED_REQUEST, "the status page does not go by this name")
        if request.path == "/login" and request.method == "POST":
            return await self._log_in(request)
        if request.method not in ("GET", "HEAD"):
            return text_response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", Allow="GET, HEAD")
        if request.path in ASSETS:
            return _asset(*ASSETS[request.path])
        if request.path in self._open:
            return await self._open[request.path]()
        if not self._access.allows(request):
            return self._ask_for_token(request)
        if request.path not in self._guarded:
            return text_response(HTTPStatus.NOT_FOUND, "there is no such page")
        return await self._guarded[request.path]()

    # For anyone

    async def _health(self) -> Response:
        return text_response(HTTPStatus.OK, "alive")

    async def _ready(self) -> Response:
        reasons = reasons_against(await self._looks.latest())
        if reasons:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
        return text_response(HTTPStatus.OK, "ready")

    async def _log_in(self, request: Request) -> Response:
        cookie = self._access.log_in(request.body)
        if cookie is not None:
            return text_response(HTTPStatus.SEE_OTHER, "welcome", Location="/", Set_Cookie=cookie)
        await asyncio.sleep(GUESS_DELAY_S)
        body = _read("login.html").replace(*WRONG_TOKEN)
        return Response(status=HTTPStatus.UNAUTHORIZED, content_type=HTML, body=body, headers=CHALLENGE)

    def _ask_for_token(self, request: Request) -> Response:
        if request.path == "/":
            body = _read("login.html")
            return Response(status=HTTPStatus.UNAUTHORIZED, content_type=HTML, body=body, headers=CHALLENGE)
        return text_response(HTTPStatus.UNAUTHORIZED, "a token is wanted", **CHALLENGE)

    # For those who may

    async def _index(self) -> Response:
        return _asset("index.html", HTML)

    async def _status(self) -> Response:
        status = await self._looks.latest()
        if status is None:
            return json_response({"problems": reasons_against(None)}, HTTPStatus.SERVICE_UNAVAILABLE)
        return json_response(status)

    async def _past(self) -> Response:
        return json_response(self._history.as_json())

    async def _metrics(self) -> Response:
        status = await self._looks.latest()
        if status is None:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, *reasons_against(None))
        from agent.page.metrics import CONTENT_TYPE_METRICS, metrics_text  # not everyone has a Prometheus

        return Response(content_type=CONTENT_TYPE_METRICS, body=metrics_text(status))

    async def _updates(self) -> Response:
        if self._watchers >= MAX_WATCHERS:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_WATCHERS} are watching already")
        return Response(content_type="text/event-stream", body=self._watch())

    async def _watch(self) -> AsyncIterator[bytes]:
        """A status now and whenever there is a new sample, until the client leaves."""
        self._watchers += 1
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            while True:
                yield _event(await self._looks.latest())
                await asyncio.sleep(SAMPLE_S)
        finally:
            self._watchers -= 1


def _event(status: dict[str, object] | None) -> bytes:
    problems = reasons_against(status)
    return b"data: " + json.dumps({"status": status, "problems": problems}).encode() + b"\n\n"


def _asset(name: str, content_type: str) -> Response:
    return Response(content_type=content_type, body=_read(name))


def _read(name: str) -> bytes:
    """From the disk each time: few ask, and nothing is held in memory for them."""
    return (FOLDER / name).read_bytes()
