"""The node as a whole: what it is made of, how it starts, and how it ends.

One task group owns every task of the node's own. Ending follows the flow: take no more clients, store and pass on what
is pending, close the database.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from node.admission import Admission
from node.authoring import Author
from node.client_endpoint import ClientEndpoint
from node.client_session import Services
from node.config import NodeConfig
from node.counters import Counters
from node.http import HttpServer, Router
from node.hub import Hub
from node.registry import Registry
from node.rest import rest_routes
from node.retention import Retainer
from node.sessions import Sessions
from node.status import StatusApi
from node.storage import Storage
from node.systemd import notify, pat_watchdog_forever

if TYPE_CHECKING:
    from node.http import Route, WebsocketEndpoint

__all__ = ["Node"]

TIDY_INTERVAL_S: Final = 60.0


class Node:
    """One node. What else belongs to it attaches before `run`: to `hub`, `endpoints`, `routes` and `tasks`."""

    def __init__(self, config: NodeConfig) -> None:
        """Opens the database. Raises: `StorageError`."""
        self.config = config
        self.counters = Counters()
        self.storage = Storage(config.data)
        self.registry = Registry(self.storage, max_streams=config.limits.max_streams)
        self.sessions = Sessions(_now_ms)
        self.hub = Hub(self.storage, Admission(self.registry, _now_ms), self.counters)
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
        retainer = Retainer(self.storage, self.registry, config.retention, self.counters, _now_ms)
        status = StatusApi(self.services, config.access, time.monotonic())
        self.endpoints: dict[str, WebsocketEndpoint] = {"/api/v1/ws": ClientEndpoint(self.services)}
        self.routes: list[Route] = [*rest_routes(self.services, config.access), *status.routes()]
        self.tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "storing": self.hub.store_forever,
            "retention": retainer.retain_forever,
            "tidying": self._tidy_forever,
            "watchdog": lambda: pat_watchdog_forever(lambda: not self.counters.storage_failing),
        }

    async def run(self, *, ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set. `ready` is called with the address and port once clients may come.

        Raises: OSError where it cannot listen there.
        """
        server = HttpServer(Router(self.routes), self.endpoints, limits=self.config.limits, counters=self.counters)
        try:
            for each in self.config.streams:
                await self.registry.declare(each.stream, each.grants())
            ready(*await server.start(*self.config.listen))
            notify("READY=1")
            await self._serve(server, stop)
            await self.hub.store_pending()
        finally:
            self.storage.close()

    async def _serve(self, server: HttpServer, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = {**self.tasks, "keeping connections": server.keep_forever}
            running = [group.create_task(task(), name=name) for name, task in tasks.items()]
            await stop.wait()
            notify("STOPPING=1")
            await server.stop()
            for task in running:
                task.cancel()

    async def _tidy_forever(self) -> None:
        while True:
            await asyncio.sleep(TIDY_INTERVAL_S)
            self.sessions.drop_expired()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
