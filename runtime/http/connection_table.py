"""The open connections of one server, and the choice of one to close when a new one needs its place.

A connection whose request the service has admitted is protected. Every other one, whatever it is doing (handshake,
request head, a response that the client does not read), may be closed when a limit is reached: the oldest of the
address that has the most such connections. So a client that is not admitted, however many sockets it opens, locks no
other client out.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runtime.client_network import client_network
from runtime.http.connection import Connection
from runtime.http.messages import HttpLimits


@dataclass(slots=True)
class HttpCounts:
    """What happened since the start; several servers may share one."""

    accepted: int = 0
    open: int = 0
    evicted: int = 0
    faults: int = 0  # of the program; each has a traceback in the log
    responses: Counter[int] = field(default_factory=Counter)  # by status


@dataclass(frozen=True, slots=True)
class _Entry:
    network: str
    task: asyncio.Task[None]
    has_place: bool


class ConnectionTable:
    def __init__(self, limits: HttpLimits, counts: HttpCounts) -> None:
        self._limits = limits
        self._counts = counts
        self._entries: dict[Connection, _Entry] = {}
        self._per_network: Counter[str] = Counter()
        self._evictable: dict[Connection, None] = {}  # without an admitted request, oldest first
        self._protected: set[Connection] = set()  # one that is in neither was evicted, and is about to end

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [entry.task for entry in self._entries.values()]

    def add(self, connection: Connection, address: str, task: asyncio.Task[None]) -> None:
        """Add a connection, closing another if necessary; `has_place` is whether there was a place for it."""
        network = client_network(address)
        self._entries[connection] = _Entry(network, task, self._make_place(network))
        self._per_network[network] += 1
        self._evictable[connection] = None

    def has_place(self, connection: Connection) -> bool:
        return self._entries[connection].has_place

    def remove(self, connection: Connection) -> None:
        network = self._entries.pop(connection).network
        self._evictable.pop(connection, None)
        self._protected.discard(connection)
        self._per_network[network] -= 1
        if not self._per_network[network]:
            del self._per_network[network]

    def protect(self, connection: Connection) -> None:
        """Protect a connection, because its request is admitted."""
        if connection in self._evictable:
            del self._evictable[connection]
            self._protected.add(connection)

    @contextmanager
    def one_request(self, connection: Connection) -> Iterator[None]:
        """The duration of one request. At its end the connection is no longer protected."""
        try:
            yield
        finally:
            if connection in self._protected:
                self._protected.remove(connection)
                self._evictable[connection] = None

    def push_out_unprotected(self) -> None:
        for connection in list(self._evictable):
            self._push_out(connection)

    def _make_place(self, network: str) -> bool:
        if self._per_network[network] >= self._limits.max_connections_per_address:
            return self._push_out_oldest_of(network)
        if len(self._entries) >= self._limits.max_connections:
            waiting = Counter(self._entries[connection].network for connection in self._evictable)
            return bool(waiting) and self._push_out_oldest_of(waiting.most_common(1)[0][0])
        return True

    def _push_out_oldest_of(self, network: str) -> bool:
        for connection in self._evictable:
            if self._entries[connection].network == network:
                self._push_out(connection)
                self._counts.evicted += 1
                return True
        return False

    def _push_out(self, connection: Connection) -> None:
        del self._evictable[connection]
        self._entries[connection].task.cancel()
