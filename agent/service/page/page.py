"""Serves the status page: routes, status snapshots, and the server's life within the agent."""

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from agent.clock import Clock
from agent.config.configuration import Config
from agent.config.page import OFF
from agent.errors import ConfigError, error_text
from agent.pipeline import Pipeline
from agent.service.page.access import Access
from agent.service.page.history import SAMPLE_S, History
from agent.service.status import collect_status
from runtime.http import HttpError, HttpLimits, HttpServer, Request, Response

MAX_WATCHERS: Final = 8
GUESS_DELAY_S: Final = 1.0
FRESH_S: Final = 1.0
STATUS_TIMEOUT_S: Final = 5.0
RETRY_MS: Final = 2000  # when a browser reconnects after it lost the agent
WRONG_TOKEN: Final = b"<!-- problem -->", b'<p class="problem" role="alert">This is not the token.</p>'
ASSETS: Final = {
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
FOLDER: Final = Path(__file__).parent / "assets"
HTML: Final = "text/html; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Final = {  # of every response
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
RETRY_S: Final = 10.0  # after the port was in use, or the token could not be read
LIMITS: Final = HttpLimits(
    max_connections=32,
    max_connections_per_address=32,
    max_head_bytes=8 * 1024,
    max_target_bytes=1024,
    max_body_bytes=1024,  # a form with the token
    buffer_bytes=8 * 1024,
    head_timeout_s=15.0,
    body_timeout_s=15.0,
    send_timeout_s=15.0,
    linger_s=15.0,
    stop_grace_s=0.0,  # a client that watches does not delay the agent's stop
)

Status = dict[str, Any]
log = logging.getLogger(__name__)


class StatusSnapshots:
    """The status, at most once a second however many clients watch, and one query of the journal at a time."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._collecting: asyncio.Task[Status] | None = None
        self._collected_at_s = 0.0

    async def latest(self) -> Status | None:
        """None if the journal's thread does not respond in time."""
        if self._collecting is None or (self._collecting.done() and time.monotonic() - self._collected_at_s > FRESH_S):
            self._collecting = asyncio.create_task(self._collect(), name="page: status")
        try:
            async with asyncio.timeout(STATUS_TIMEOUT_S):
                return await asyncio.shield(self._collecting)
        except TimeoutError:
            return None

    def close(self) -> None:
        if self._collecting is not None:
            self._collecting.cancel()

    async def _collect(self) -> Status:
        status = await collect_status(self._pipeline, self._clock, os.getpid())
        self._collected_at_s = time.monotonic()
        return status


def readiness_problems(status: Status | None) -> list[str]:
    """Why no readings reach the disk; empty if they do. Shown without a token, so it holds no value of the status."""
    if status is None:
        return ["the journal does not respond"]
    reasons = []
    if not status["is_making_progress"]:
        reasons.append("the pipeline is stalled")
    if status["storage_problem"]:
        reasons.append("cannot write the journal")
    return reasons


class Page:
    def __init__(self, access: Access, snapshots: StatusSnapshots, history: History) -> None:
        self._access = access
        self._snapshots = snapshots
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
        request.admit()
        if not self._access.knows_host(request):
            return text_response(
                HTTPStatus.MISDIRECTED_REQUEST,
                "unknown host name; open the page by its IP address or a configured name",
            )
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

    def refuse(self, error: HttpError) -> Response:
        return text_response(error.status, str(error))

    # Without a token

    async def _health(self) -> Response:
        return text_response(HTTPStatus.OK, "alive")

    async def _ready(self) -> Response:
        reasons = readiness_problems(await self._snapshots.latest())
        if reasons:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
        return text_response(HTTPStatus.OK, "ready")

    async def _log_in(self, request: Request) -> Response:
        cookie = self._access.log_in(await request.body.read())
        if cookie is not None:
            return text_response(HTTPStatus.SEE_OTHER, "logged in", Location="/", Set_Cookie=cookie)
        await asyncio.sleep(GUESS_DELAY_S)
        body = _read("login.html").replace(*WRONG_TOKEN)
        return Response(status=HTTPStatus.UNAUTHORIZED, content_type=HTML, body=body, headers=CHALLENGE)

    def _ask_for_token(self, request: Request) -> Response:
        if request.path == "/":
            body = _read("login.html")
            return Response(status=HTTPStatus.UNAUTHORIZED, content_type=HTML, body=body, headers=CHALLENGE)
        return text_response(HTTPStatus.UNAUTHORIZED, "a token is required", **CHALLENGE)

    # With the token

    async def _index(self) -> Response:
        return _asset("index.html", HTML)

    async def _status(self) -> Response:
        status = await self._snapshots.latest()
        if status is None:
            return json_response({"problems": readiness_problems(None)}, HTTPStatus.SERVICE_UNAVAILABLE)
        return json_response(status)

    async def _past(self) -> Response:
        return json_response(self._history.as_json())

    async def _metrics(self) -> Response:
        status = await self._snapshots.latest()
        if status is None:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, *readiness_problems(None))
        from agent.service.page.metrics import metrics_text  # imported on use: not every device is scraped
        from runtime.prometheus_text import CONTENT_TYPE

        return Response(content_type=CONTENT_TYPE, body=metrics_text(status))

    async def _updates(self) -> Response:
        if self._watchers >= MAX_WATCHERS:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_WATCHERS} clients are connected already")
        return Response(content_type="text/event-stream", body=self._watch())

    async def _watch(self) -> AsyncIterator[bytes]:
        """A status now and whenever there is a new sample, until the client leaves."""
        self._watchers += 1
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            while True:
                yield _event(await self._snapshots.latest())
                await asyncio.sleep(SAMPLE_S)
        finally:
            self._watchers -= 1


def text_response(status: HTTPStatus, text: str, **headers: str) -> Response:
    """A response in plain text; names of headers have `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, content_type=PLAIN, body=f"{text}\n".encode(), headers=named)


def json_response(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status=status, content_type="application/json", body=json.dumps(value).encode())


def _event(status: dict[str, object] | None) -> bytes:
    problems = readiness_problems(status)
    return b"data: " + json.dumps({"status": status, "problems": problems}).encode() + b"\n\n"


def _asset(name: str, content_type: str) -> Response:
    return Response(content_type=content_type, body=_read(name))


def _read(name: str) -> bytes:
    """Read the file each time: requests are few, and nothing is held in memory for them."""
    return (FOLDER / name).read_bytes()


async def serve_page(pipeline: Pipeline, clock: Clock) -> None:
    """Serve the page until the configuration turns it off, and restart it with each new configuration.

    A port that is in use or a token that cannot be read is logged once, and retried.
    """
    history, problem = History(), ""
    while (config := pipeline.config).page.listen != OFF:
        try:
            await _serve(pipeline, clock, config, history)
            problem = ""
        except (ConfigError, OSError) as error:
            new_problem = error_text(error)
            if new_problem != problem:
                log.warning(
                    "cannot start the status page, retrying; listen=%s problem=%s", config.page.listen, new_problem
                )
            problem = new_problem
            await asyncio.sleep(RETRY_S)


async def _serve(pipeline: Pipeline, clock: Clock, config: Config, history: History) -> None:
    """Raises: ConfigError, OSError."""
    snapshots = StatusSnapshots(pipeline, clock)
    server = HttpServer(Page(Access(config.page), snapshots, history), LIMITS, name="status page", headers=HEADERS)
    try:
        _, port = await server.start(config.page.host, config.page.port)
        log.info("status page; url=http://%s:%d/", config.page.listen.rpartition(":")[0], port)
        while pipeline.config is config:
            history.sample({name: each.status for name, each in pipeline.collectors.items()})
            await asyncio.sleep(SAMPLE_S)
    finally:
        await server.stop()
        snapshots.close()
