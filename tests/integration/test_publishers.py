"""The contract of all publishers, against real destinations: a node, MQTT brokers with and without TLS, files.

Whatever becomes of the link: everything arrives, once after repetitions are removed, in order per chain.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.publish import CursorSource, Quarantine, SenderSettings
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.signing import sign_message
from runtime.backoff import Backoff
from testbed.tcp_proxy import TcpProxy
from tests.support.destinations import (
    DEADLINE_S,
    SIGNER,
    STREAM,
    BrokerDestination,
    Destination,
    FileDestination,
    MakeDestination,
    NodeDestination,
)
from tests.support.draining_sender import DrainingSender
from tests.support.patience import PATIENCE_S
from tests.support.proxies import flap, proxy_to

pytestmark = pytest.mark.slow

CHAINS = ("fast", "slow", "rare")
START_MS = 1_700_000_000_000
SETTINGS = SenderSettings(
    backoff=Backoff(first_s=0.05, max_s=0.2), deadline_s=DEADLINE_S, connect_timeout_s=2 * DEADLINE_S
)

NEEDS_MOSQUITTO = pytest.mark.needs("mosquitto", "mosquitto")
DESTINATIONS: dict[str, MakeDestination] = {
    "websocket": lambda folder: NodeDestination(folder, "websocket"),
    "http": lambda folder: NodeDestination(folder, "http"),
    "mqtt 5": lambda folder: BrokerDestination(folder),
    "mqtt 3.1.1": lambda folder: BrokerDestination(folder, version="3.1.1"),
    "mqtt tls": lambda folder: BrokerDestination(folder, use_tls=True),
    "lines": lambda folder: FileDestination(folder, "lines"),
    "directory": lambda folder: FileDestination(folder, "directory"),
}
ALL = [pytest.param(name, marks=NEEDS_MOSQUITTO if "mqtt" in name else ()) for name in DESTINATIONS]
OVER_TCP = [pytest.param(name, marks=NEEDS_MOSQUITTO if "mqtt" in name else ()) for name in list(DESTINATIONS)[:5]]


@pytest.fixture
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Destination]:
    destination = DESTINATIONS[request.param](tmp_path / "destination")
    destination.start()
    try:
        yield destination
    finally:
        getattr(destination, "close", destination.stop)()


class Device:
    """A journal with signed messages in it, and the delivery of them."""

    def __init__(self, folder: Path, disk: DirectoryDisk, destination: Destination, port: int) -> None:
        self.journal = Journal(disk, JournalSettings(cursors=("publisher",)), new_journal_id=1, now_ms=START_MS)
        self.quarantine = folder / "quarantine.jsonl"
        self._cursor = self.journal.cursor("publisher")
        self._source = CursorSource(self._cursor)
        self._last: dict[str, MessageRef] = {}
        self.delivery = DrainingSender(
            destination.publisher(port), self._source, Quarantine(self.quarantine, "test"), SETTINGS
        )

    def next_message(self, chain: str, **content: Any) -> StreamMessage:
        previous = self._last.get(chain)
        number = 0 if previous is None else previous.timestamp - START_MS + 1
        ref = self._last[chain] = MessageRef(START_MS + number, 0)
        message_id = MessageID(STREAM, 0, *ref, SIGNER.address, chain)
        text = json.dumps({"chain": chain, "n": number, **content})
        return sign_message(StreamMessage(message_id, text, prev_msg_ref=previous), SIGNER)

    def store(self, *messages: StreamMessage | bytes, chain: str = "") -> None:
        for message in messages:
            payload = message if isinstance(message, bytes) else message.serialize().encode()
            name = chain if isinstance(message, bytes) else message.message_id.msg_chain_id
            self.journal.append(CHAINS.index(name), Entry(payload, name, START_MS, 0))
        self.journal.commit(START_MS)
        self._source.notify()

    def store_some(self, count: int) -> None:
        """So many of each chain, in small commits."""
        for start in range(0, count, 10):
            self.store(*(self.next_message(chain) for chain in CHAINS for _ in range(start, min(start + 10, count))))

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.delivery.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def drain(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.delivery.run_until_drained()
        assert self._cursor.waiting_lanes() == []
        assert [self._cursor.position(lane) for lane in range(3)] == [
            self.journal.cursor("publisher").position(lane) for lane in range(3)
        ]


@contextmanager
def open_device(folder: Path, destination: Destination, port: int) -> Iterator[Device]:
    with closing(DirectoryDisk(folder / "journal")) as disk:
        yield Device(folder, disk, destination, port)


@asynccontextmanager
async def device_and_proxy(folder: Path, destination: Destination) -> AsyncIterator[tuple[Device, TcpProxy]]:
    async with proxy_to(destination.port) as proxy:
        with open_device(folder, destination, proxy.port) as device:
            yield device, proxy


async def until(condition: Callable[[], bool]) -> None:
    """The status is for people to look at, and sends no notice when it changes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def check_arrived(destination: Destination, count: int, missing: set[tuple[str, int]] | None = None) -> None:
    """So many of each chain, in order, when repetitions are removed."""
    missing = missing or set()
    contents = destination.received(count * len(CHAINS) - len(missing))
    for chain in CHAINS:
        numbers = [content["n"] for content in contents if content.get("chain") == chain]
        first_arrivals = list(dict.fromkeys(numbers))
        assert first_arrivals == [n for n in range(count) if (chain, n) not in missing], f"{chain}: {numbers}"


@pytest.mark.parametrize("destination", ALL, indirect=True)
def test_a_backlog_and_live_data_arrive_in_order(destination: Destination, tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_device(tmp_path, destination, destination.port) as device:
            device.store_some(100)
            async with device.delivering():
                device.store_some(20)
                await asyncio.sleep(0)
            await device.drain()
            assert device.delivery.status.messages_acknowledged >= 360
            assert device.delivery.status.messages_quarantined == 0

    asyncio.run(scenario())
    check_arrived(destination, 120)


@pytest.mark.parametrize("destination", ALL, indirect=True)
def test_a_destination_restarted_in_the_middle_loses_nothing(destination: Destination, tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_device(tmp_path, destination, destination.port) as device:
            device.store_some(30)
            await device.drain()
            await asyncio.to_thread(destination.stop)
            device.store_some(30)
            async with device.delivering():
                await until(lambda: device.delivery.status.failures > 0)
                device.store_some(30)
                await asyncio.to_thread(destination.start)
            await device.drain()
            assert device.delivery.status.messages_quarantined == 0

    asyncio.run(scenario())
    check_arrived(destination, 90)


@pytest.mark.parametrize("destination", OVER_TCP, indirect=True)
def test_a_flapping_link_loses_nothing(destination: Destination, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with device_and_proxy(tmp_path, destination) as (device, proxy):
            device.store_some(150)
            flapping = asyncio.create_task(flap(proxy, 4, passed_bytes=30_000))
            await device.drain()
            flapping.cancel()
            assert proxy.connections > 1
            assert device.delivery.status.messages_quarantined == 0

    asyncio.run(scenario())
    check_arrived(destination, 150)


@pytest.mark.parametrize("destination", OVER_TCP, indirect=True)
def test_a_half_open_connection_is_noticed_by_its_deadline(destination: Destination, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with device_and_proxy(tmp_path, destination) as (device, proxy):
            device.store_some(10)
            await device.drain()
            async with device.delivering():
                await until(lambda: device.delivery.status.is_up)
                proxy.stall()
                device.store_some(10)
                await until(lambda: not device.delivery.status.is_up and device.delivery.status.failures > 0)
                await proxy.heal()
            await device.drain()
            assert device.delivery.status.messages_quarantined == 0

    asyncio.run(scenario())
    check_arrived(destination, 20)


@pytest.mark.parametrize("destination", [name for name in ALL if name.values != ("directory",)], indirect=True)
def test_a_refused_message_is_quarantined_and_the_next_goes_on(destination: Destination, tmp_path: Path) -> None:
    async def scenario() -> Device:
        with open_device(tmp_path, destination, destination.port) as device:
            device.store_some(5)
            device.store(destination.spoil(device.next_message("slow")), chain="slow")
            device.store(*(device.next_message(chain) for chain in ("fast", "rare")))
            device.store_some(5)
            await device.drain()
            return device

    device = asyncio.run(scenario())
    check_arrived(destination, 11, missing={("slow", 5)})
    assert device.delivery.status.messages_quarantined == 1
    (reported,) = map(json.loads, device.quarantine.read_text().splitlines())
    assert (reported["chain"], reported["position"]) == ("slow", 5)
    assert reported["reason"]
    assert reported["message"]
