"""The node's connection to its tracker: reports changes, and receives instructions."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import uuid4

from node.peers.connection import RECONNECT, PeerConnection, dial
from node.peers.dialects import Dialect
from node.peers.handshake import Identity, dial_url, hello_headers
from protocol.errors import WireError
from protocol.streamr.tracker import InstructionMessage, StatusMessage

STATUS_PAUSE_S: Final = 0.1  # changes within it are reported together
STATUS_INTERVAL_S: Final = 30.0

log = logging.getLogger(__name__)


class TrackerLink:
    """`status` returns the status to report; `connected` is called for each connection, `instruct` for instructions."""

    def __init__(
        self,
        url: str,
        identity: Identity,
        *,
        make_dialect: Callable[[], Dialect],
        status: Callable[[], dict[str, Any]],
        connected: Callable[[], None],
        instruct: Callable[[InstructionMessage], None],
        counters: Counter[str],
        chance: Random,
    ) -> None:
        self._url = url
        self._identity = identity
        self._make_dialect = make_dialect
        self._status = status
        self._connected = connected
        self._instruct = instruct
        self._counters = counters
        self._chance = chance
        self._has_changed = asyncio.Event()

    def report(self) -> None:
        """Report the changed status soon."""
        self._has_changed.set()

    async def run(self) -> None:
        """Stay connected until cancelled. While the tracker cannot be reached, links between nodes stay as they are."""
        failures = 0
        url = dial_url(self._url, self._identity.address)
        while True:
            try:
                async with dial(url, hello_headers(self._identity.peer_id, self._identity.peer_type)) as websocket:
                    failures = 0
                    log.info("tracker connected; url=%s", self._url)
                    await self._serve(PeerConnection(websocket))
                log.warning("tracker disconnected, keeping the links to neighbours; url=%s", self._url)
            except OSError as problem:
                log.debug("cannot connect to the tracker; url=%s problem=%s", self._url, problem)
            failures += 1
            await asyncio.sleep(RECONNECT.wait_s(failures, self._chance.random()))

    async def _serve(self, connection: PeerConnection) -> None:
        dialect = self._make_dialect()
        self._connected()
        reporting = asyncio.create_task(self._report_forever(connection, dialect))

        async def receive(text: str | bytes) -> None:
            self._receive(dialect, text)

        try:
            await connection.run(receive)
        finally:
            reporting.cancel()
            await asyncio.wait([reporting])

    def _receive(self, dialect: Dialect, text: str | bytes) -> None:
        try:
            message = dialect.read_tracker(text)
        except WireError as problem:
            self._counters["unparsable_messages"] += 1
            log.debug("tracker sent an invalid message; problem=%s", problem)
            return
        if isinstance(message, InstructionMessage):
            self._counters["instructions"] += 1
            self._instruct(message)

    async def _report_forever(self, connection: PeerConnection, dialect: Dialect) -> None:
        while True:
            self._has_changed.clear()
            status = StatusMessage(version=1, request_id=str(uuid4()), status=self._status())
            connection.send(dialect.write_tracker(status))
            await asyncio.sleep(STATUS_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STATUS_INTERVAL_S):
                    await self._has_changed.wait()
