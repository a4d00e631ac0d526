"""The node as a whole: what it is made of, how it starts, and how it ends.

One task group owns every task of the node's own. Ending follows the flow: take no more clients, store and pass on what
is pending, close the database.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.access import Access
from node.admission import Admission
from node.authoring import Author
from node.client_endpoint import ClientEndpoint
from node.client_session import Services
from node.counters import Counters
from node.http import HttpServer, Router
from node.hub import Hub
from node.registry import Registry
from node.rest import rest_routes
from node.sessions import Sessions
from node.storage import Storage

if TYPE_CHECKING:
    from node.http import Route, WebsocketEndpoint
    from node.limits import Limits

__all__ = ["Node"]


class Node:
    """One node. What else belongs to it attaches before `run`: to `hub`, `endpoints`, `routes` and `tasks`."""

    def __init__(self, data: Path, limits: "Limits", access: Access) -> None:
        """Opens the database. Raises: `StorageError`."""
        self.limits = limits
        self.counters = Counters()
        self.storage = Storage(data)
        self.registry = Registry(self.storage, max_streams=limits.max_streams)
        self.sessions = Sessions(_now_ms)
        self.hub = Hub(self.storage, Admission(self.registry, _now_ms), self.counters)
        self.services = Services(
            hub=self.hub,
            registry=self.registry,
            sessions=self.sessions,
            storage=self.storage,
            author=Author(),
            limits=limits,
            counters=self.counters,
            clock_ms=_now_ms,
            clock_s=time.monotonic,
        )
        self.endpoints: dict[str, WebsocketEndpoint] = {"/api/v1/ws": ClientEndpoint(self.services)}
        self.routes: list[Route] = rest_routes(self.services, access)
        self.tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"storing": self.hub.store_forever}

    async def run(self, host: str, port: int, *, ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set. `ready` is called with the address and port once clients may come.

        Raises: OSError where it cannot listen there.
        """
        server = HttpServer(Router(self.routes), self.endpoints, limits=self.limits, counters=self.counters)
        try:
            ready(*await server.start(host, port))
            async with asyncio.TaskGroup() as group:
                tasks = {**self.tasks, "keeping connections": server.keep_forever}
                running = [group.create_task(task(), name=name) for name, task in tasks.items()]
                await stop.wait()
                await server.stop()
                for task in running:
                    task.cancel()
            await self.hub.store_pending()
        finally:
            self.storage.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
