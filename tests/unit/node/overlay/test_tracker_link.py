import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, cast

from node.overlay.tracker_link import TrackerLink
from node.peers.dialects import Plain
from node.peers.handshake import Identity, PeerType
from tests.support.patience import PATIENCE_S
from tests.support.within import within

if TYPE_CHECKING:
    from node.peers.connection import PeerConnection


class FakeConnection:
    """Ends when it is asked to, and takes whatever is sent."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.sent: list[str] = []

    def send(self, text: str) -> None:
        self.sent.append(text)

    async def run(self, _receive: Callable[[str | bytes], Awaitable[None]]) -> None:
        await self.ends.wait()


def test_a_connection_that_ends_with_news_to_report_ends_the_reporting(monkeypatch: Any) -> None:
    monkeypatch.setattr("node.overlay.tracker_link.STATUS_PAUSE_S", 0.0)
    identity = Identity(peer_id="a", address="ws://a", peer_type=PeerType.STORAGE)

    async def scenario() -> None:
        link = TrackerLink(
            "ws://t", identity, make_dialect=Plain, status=dict, connected=lambda: None, instruct=lambda _: None,
            counters=Counter(), chance=Random(1),
        )  # fmt: skip
        connection = FakeConnection()
        talking = asyncio.create_task(link._serve(cast("PeerConnection", connection)))
        for _ in range(10):  # until it waits for news
            await asyncio.sleep(0)
        link.report()  # wakes the reporting in the same turn of the loop in which it is cancelled
        talking.cancel()
        await within(PATIENCE_S, asyncio.wait({talking}))
        assert connection.sent

    asyncio.run(scenario())
