"""A hostile broker against each of the three that connect to brokers: the driver, the publisher, the node's bridge.

Whatever it sends, and when: the connection goes on or ends, memory stays bounded, and the client can be stopped.
"""

import asyncio
import contextlib
import tracemalloc
from collections.abc import Coroutine
from random import Random
from typing import Any, Final, Protocol

import pytest

from agent.errors import LinkDown
from agent.publish.mqtt import MqttPublisher, MqttSettings
from drivers import DeviceError
from drivers.mqtt.driver import MAX_PACKET_BYTES, build
from node.mqtt_bridge.bridge import MqttBridge
from node.mqtt_bridge.settings import MqttSettings as BridgeSettings
from node.mqtt_bridge.settings import Route
from runtime.mqtt.client import READ_BYTES
from runtime.mqtt.settings import BrokerSettings
from tests.effort import effort
from tests.support.hostile_broker import STATES, Attack, HostileBroker, State, attack_of, listening
from tests.support.patience import PATIENCE_S
from tests.support.publish_records import record
from tests.unit.runtime.mqtt.test_packets import publication

ATTACKS: Final = effort(test=8, soak=20_000)
MAX_MEMORY_BYTES: Final = 24 << 20
MESSAGE: Final = b'[32,["hostile",0,1,0,"p","c"]]'


class Client(Protocol):
    async def __call__(self, port: int, *, is_v5: bool) -> None:
        """Connect once, and go on until the connection ends, or for a few reads."""


async def drive(port: int, *, is_v5: bool) -> None:
    driver = build(
        "hostile",
        {
            "host": "127.0.0.1",
            "port": port,
            "version": "5" if is_v5 else "3.1.1",
            "connect_timeout_s": 0.3,
            "subscriptions": [{"topic": "hostile/{sensor}", "quantity": "q"}],
        },
    )
    try:
        await driver.open()
        for _ in range(3):
            async with asyncio.timeout(0.1):
                readings = await driver.read()
            await driver.acknowledge({reading.token for reading in readings if reading.token is not None})
    except (DeviceError, TimeoutError):
        pass
    finally:
        await driver.close()


async def publish(port: int, *, is_v5: bool) -> None:
    broker = BrokerSettings(
        host="127.0.0.1", port=port, client_id="c", version="5" if is_v5 else "3.1.1", connect_timeout_s=0.3
    )
    publisher = MqttPublisher("hostile", MqttSettings(broker=broker))
    try:
        await publisher.connect()
        await publisher.send([record(0, payload=MESSAGE)])
        for _ in range(3):
            async with asyncio.timeout(0.1):
                await publisher.outcomes()
    except (LinkDown, TimeoutError):
        pass
    finally:
        await publisher.close()


class _NoHub:
    async def wait_for_space(self) -> None: ...

    def publish(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing that a hostile broker sends is a signed message")


async def bridge(port: int, *, is_v5: bool) -> None:
    settings = BridgeSettings.from_url(
        f"mqtt://127.0.0.1:{port}",
        client_id="c",
        routes=(Route("hostile/#"),),
        version="5" if is_v5 else "3.1.1",
    )
    running = asyncio.ensure_future(MqttBridge(_NoHub(), settings, chance=Random(1)).run())
    await asyncio.wait([running], timeout=0.1)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


CLIENTS: Final[dict[str, Client]] = {"driver": drive, "publisher": publish, "bridge": bridge}


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work

    asyncio.run(bounded())


async def suffer(client: Client, attack: Attack, state: State, *, is_v5: bool, is_deaf: bool = False) -> None:
    broker = HostileBroker(is_v5=is_v5, state=state, attack=attack, is_deaf=is_deaf)
    async with listening(broker) as port:
        await client(port, is_v5=is_v5)
        assert broker.connections, "it was attacked"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_any_packets_in_any_state_leave_a_client_that_can_be_stopped(name: str) -> None:
    async def attack_all() -> None:
        for seed in range(ATTACKS):
            is_v5 = seed % 2 == 0
            async with asyncio.timeout(PATIENCE_S):
                await suffer(CLIENTS[name], attack_of(seed, is_v5=is_v5), STATES[seed % 3], is_v5=is_v5)

    tracemalloc.start()
    try:
        asyncio.run(attack_all())
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("data", [b"\xe0\x00\xd0\x00", b"\x00\x00\xd0\x00", b"\xe0\x00", b"\xf0\x00\xf0\x00"])
@pytest.mark.parametrize("state", STATES)
def test_four_bytes_do_not_hang_it(name: str, data: bytes, state: State) -> None:
    run(suffer(CLIENTS[name], _sends(data), state, is_v5=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("kind", [0x30, 0x40, 0x90])
def test_what_is_announced_is_not_what_is_held(name: str, kind: int) -> None:
    """250 MB are announced, and come as fast as they are read."""
    sent = 0

    async def attack(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(bytes([kind]) + b"\x80\xe5\x9a\x77")  # 250,000,000 bytes
        while sent < 250_000_000 and not writer.is_closing():
            writer.write(bytes(1 << 20))
            await writer.drain()
            sent += 1 << 20

    tracemalloc.start()
    try:
        run(suffer(CLIENTS[name], attack, "open", is_v5=True))
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY_BYTES
    finally:
        tracemalloc.stop()
    assert sent < 64 << 20, "it hangs up and does not read on"


@pytest.mark.slow
def test_the_largest_packets_that_the_driver_takes_are_in_memory_one_or_two_at_a_time() -> None:
    large = publication("hostile/a", bytes(MAX_PACKET_BYTES - 2 * READ_BYTES), number=1, is_v5=True)

    async def attack(writer: asyncio.StreamWriter) -> None:
        for _ in range(20):
            writer.write(large)
            await writer.drain()

    async def flood() -> None:
        broker = HostileBroker(is_v5=True, state="open", attack=attack)
        async with listening(broker) as port:
            driver = build(
                "hostile",
                {"host": "127.0.0.1", "port": port, "subscriptions": [{"topic": "hostile/{sensor}", "quantity": "q"}]},
            )
            await driver.open()
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            while broker.attacks == 0 or driver.quality.damaged_frames < 5:
                await driver.read()
            assert tracemalloc.get_traced_memory()[1] - before < 8 * MAX_PACKET_BYTES
            await driver.close()

    tracemalloc.start()
    try:
        run(flood())
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("state", STATES)
def test_a_broker_that_neither_speaks_nor_reads_can_be_left(name: str, state: State) -> None:
    run(suffer(CLIENTS[name], _sends(b""), state, is_v5=True, is_deaf=True))


def _sends(data: bytes) -> Attack:
    async def attack(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return attack
