"""The status of the node: a web page, `/metrics` for Prometheus, `/healthz` for health checks.

The page is self-contained: no script, no external resources, and a content security policy that allows neither.
"""

import base64
import hashlib
import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from http import HTTPStatus
from typing import Final

from node.access.policy import Access
from node.access.web_guard import WebGuard
from node.clients.session import Services
from node.counters import Counters
from node.http import Request, Response, Route, json_response
from node.streams import StreamPart
from runtime.prometheus_text import CONTENT_TYPE, counter, encode_families, gauge

PREFIX: Final = "headgate_node_"
REFRESH_S: Final = 5
MAX_SHOWN_STREAMS: Final = 200
GAUGES: Final = frozenset({"storage_failing", "websocket_connections"})
STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b2733;"
    "background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee4;overflow-wrap:anywhere}"
    "td:first-child{min-width:9rem}.wide{overflow-x:auto}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.bad{color:#b00020;font-weight:600}.good{color:#146c2e}"
    "@media(prefers-color-scheme:dark){body{background:#12181f;color:#dbe3ea}th,td{border-color:#33404d}"
    ".bad{color:#ff8a80}.good{color:#7ddf9a}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


CountersOfPart = Callable[[], Mapping[str, int]]


class StatusApi:
    """`parts` are the counters of attached parts, by name."""

    def __init__(
        self,
        services: Services,
        access: Access,
        guard: WebGuard,
        started_at_s: float,
        parts: Mapping[str, CountersOfPart],
    ) -> None:
        self._services = services
        self._access = access
        self._guard = guard
        self._started_at_s = started_at_s
        self._parts = parts

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/", self.page),
            Route("GET", "/metrics", self.metrics),
            Route("GET", "/healthz", self.health),
        ]

    async def health(self, _: Request) -> Response:
        """200 while messages can be stored."""
        if self._services.counters.storage_failing:
            return json_response({"status": "storage failing"}, HTTPStatus.SERVICE_UNAVAILABLE)
        return json_response({"status": "ok"})

    def _check(self, request: Request) -> None:
        """Raises: `Refused`."""
        self._access.check_status(request.peer)
        self._guard.check_status(request)

    async def metrics(self, request: Request) -> Response:
        self._check(request)
        text = metrics_text(self._services.counters, await self._gauges(), self._count_parts())
        return Response(body=text, content_type=CONTENT_TYPE)

    async def page(self, request: Request) -> Response:
        self._check(request)
        failing = self._services.counters.storage_failing
        health = '<span class="bad">storage failing</span>' if failing else '<span class="good">serving</span>'
        gauges = [(_label(name), value) for name, value in (await self._gauges()).items()]
        body = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate node</title>'
            f'<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="{REFRESH_S}">'
            f"<style>{STYLE}</style></head><body><h1>Headgate node: {health}</h1>"
            f"<h2>Now</h2>{_table(('', 'value'), gauges)}"
            f"<h2>Streams</h2>{_table(STREAM_COLUMNS, await self._stream_rows())}"
            f"<h2>Since the start</h2>{_table(('', 'count'), self._counter_rows())}</body></html>"
        )
        return Response(body=body.encode(), content_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def _gauges(self) -> dict[str, float]:
        services = self._services
        return {
            "uptime_seconds": round(services.clock_s() - self._started_at_s),
            "connections": services.counters.websocket_connections,
            "subscriptions": sum(services.hub.subscribed_parts.values()),
            "pending_messages": services.hub.pending_messages,
            "sessions": len(services.sessions),
            "streams": len(services.registry),
            "grants": services.registry.grants,
            "chains": services.storage.chain_quota.total,
            "database_bytes": await services.storage.used_bytes(),
        }

    def _count_parts(self) -> dict[str, int]:
        counters = {f"{part}_{name}": value for part, count in self._parts.items() for name, value in count().items()}
        return dict(sorted(counters.items()))

    def _counter_rows(self) -> list[tuple[str, int]]:
        counts = _counts(self._services.counters) | self._count_parts()
        return [(_label(name), count) for name, count in counts.items()]

    async def _stream_rows(self) -> list[tuple[str | int, ...]]:
        subscribers = self._services.hub.subscribed_parts
        rows: list[tuple[str | int, ...]] = []
        for part in (await self._services.storage.totals())[:MAX_SHOWN_STREAMS]:
            if part.stream_id is not None:
                count = subscribers.get(StreamPart(part.stream_id, part.partition), 0)
                rows.append((part.stream_id, part.partition, part.messages, part.bytes, count))
        return rows


STREAM_COLUMNS: Final = ("stream", "partition", "messages", "bytes", "subscribers")


def metrics_text(counters: Counters, gauges: Mapping[str, float], of_parts: Mapping[str, int]) -> bytes:
    own = _counts(counters)
    return encode_families(
        [
            *(gauge(f"{PREFIX}{name}", getattr(counters, name)) for name in sorted(GAUGES)),
            *(counter(f"{PREFIX}{name}_total", count) for name, count in (own | dict(of_parts)).items()),
            *(gauge(f"{PREFIX}{name}", value) for name, value in gauges.items()),
        ]
    )


def _label(name: str) -> str:
    return name.replace("_", " ")


def _counts(counters: Counters) -> dict[str, int]:
    return {each.name: getattr(counters, each.name) for each in fields(counters) if each.name not in GAUGES}


def _table(columns: Iterable[str], rows: Iterable[Iterable[str | float]]) -> str:
    head = "".join(f"<th{_alignment(index)}>{column}</th>" for index, column in enumerate(columns))
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _cells(row: Iterable[str | float]) -> str:
    return "".join(
        f"<td{_alignment(index)}>{html.escape(str(cell)) if isinstance(cell, str) else f'{cell:,}'}</td>"
        for index, cell in enumerate(row)
    )


def _alignment(index: int) -> str:
    return ' class="n"' if index else ""
