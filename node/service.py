"""The node as a whole: its parts, its start and its orderly stop.

One task group owns all tasks of the node. The stop follows the flow: accept no more clients, store and deliver what is
pending, close the database.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from node.access.login import Sessions, digest_of
from node.access.web_guard import WebGuard
from node.admission import Admission
from node.clients.authoring import Author
from node.clients.session import ClientEndpoint, Services
from node.config import NodeConfig
from node.counters import Counters
from node.http import HttpServer, Router
from node.hub.hub import Hub
from node.permissions.operator import new_key, remove_operator_file, write_operator_file
from node.permissions.registry import Registry
from node.rest import rest_routes
from node.retention import Retainer
from node.status import CountersOfPart, StatusApi
from node.storage import Storage
from node.streams import OPERATOR
from runtime.service_manager import ALIVE, READY, STOPPING, notify, watchdog_interval_s

if TYPE_CHECKING:
    from node.http import Route, WebsocketEndpoint

TIDY_INTERVAL_S: Final = 60.0


class Node:
    """One node. Parts are attached before `run`: to `hub`, `endpoints`, `routes`, `tasks`, `counters_of_parts`."""

    def __init__(self, config: NodeConfig) -> None:
        """Reads the API keys and opens the database. Raises: `ConfigError`, `StorageError`; OSError."""
        self.config = config
        api_keys = {digest_of(each.read()): each.address for each in config.api_keys}
        self._operator_key = new_key()
        api_keys[digest_of(self._operator_key)] = OPERATOR
        self.counters = Counters()
        self.storage = Storage(config.data, config.limits.quota("chains"))
        self.registry = Registry(self.storage, config.limits)
        self.sessions = Sessions(_now_ms, api_keys)
        self.hub = Hub(self.storage, Admission(self.registry, _now_ms), self.counters)
        self.hub.load_recent()
        self.services = Services(
            hub=self.hub,
            registry=self.registry,
            sessions=self.sessions,
            storage=self.storage,
            author=Author(),
            limits=config.limits,
            counters=self.counters,
            clock_ms=_now_ms,
            clock_s=time.monotonic,
        )
        self.counters_of_parts: dict[str, CountersOfPart] = {"quota": self._count_refusals}
        self.retainer = Retainer(self.storage, self.registry, config.retention, self.counters, _now_ms)
        self._guard = WebGuard(config.access, config.listen[0])
        status = StatusApi(self.services, config.access, self._guard, time.monotonic(), self.counters_of_parts)
        self.endpoints: dict[str, WebsocketEndpoint] = {"/api/v1/ws": ClientEndpoint(self.services)}
        self.routes: list[Route] = [*rest_routes(self.services, config.access), *status.routes()]
        self.tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "storing": self.hub.store_forever,
            "retention": self.retainer.retain_forever,
            "tidying": self._tidy_forever,
            "watchdog": self._feed_watchdog_forever,
        }

    async def run(self, *, ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set. `ready` is called with the address and port when clients can connect.

        Raises: OSError if it cannot listen.
        """
        server = HttpServer(
            Router(self.routes), self.endpoints, guard=self._guard, limits=self.config.limits, counters=self.counters
        )
        try:
            await self.registry.declare([(each.stream, each.grants()) for each in self.config.streams])
            host, port = await server.start(*self.config.listen)
            write_operator_file(self.config.data, host, port, self._operator_key)
            ready(host, port)
            notify(READY)
            await self._serve(server, stop)
        finally:
            remove_operator_file(self.config.data)
            self.storage.close()

    async def _serve(self, server: HttpServer, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = {**self.tasks, "pinging connections": server.ping_forever}
            running = [group.create_task(task(), name=name) for name, task in tasks.items()]
            await stop.wait()
            notify(STOPPING)
            await server.stop()
            await self.hub.store_pending()
            for task in running:
                task.cancel()

    def _count_refusals(self) -> dict[str, int]:
        """Counts of requests refused because a quota is used up."""
        return {
            "streams_refused": self.registry.stream_quota.refused,
            "grants_refused": self.registry.grant_quota.refused,
            "chains_refused": self.storage.chain_quota.refused,
        }

    async def _feed_watchdog_forever(self) -> None:
        """Report that the node is alive, while messages can be stored."""
        interval_s = watchdog_interval_s()
        while interval_s is not None:
            if not self.counters.storage_failing:
                notify(ALIVE)
            await asyncio.sleep(interval_s)

    async def _tidy_forever(self) -> None:
        while True:
            await asyncio.sleep(TIDY_INTERVAL_S)
            self.sessions.drop_expired()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
