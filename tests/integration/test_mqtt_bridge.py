"""The bridge between a real MQTT broker and the node."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from node.errors import Refused, StorageError
from node.mqtt_bridge.bridge import MAX_PACKET_BYTES, MqttBridge
from node.mqtt_bridge.settings import MqttSettings, Route
from node.streams import PUBLIC
from protocol.ethereum.signer import Signer
from protocol.streamr.stream_message import StreamMessage
from testbed.mosquitto import Broker
from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S
from tests.support.small_client import MessageMaker, SmallClient
from tests.support.within import within

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto")]

SIGNER = Signer(b"\x02" * 32)
STREAM = f"{SIGNER.address}/mqtt"
TOPIC = "headgate/site/data"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        yield broker


class Publisher:
    """Publishes with QoS 1, as the agent does."""

    def __init__(self, broker: Broker) -> None:
        self._client = Client(CallbackAPIVersion.VERSION2)
        connected = threading.Event()
        self._client.on_connect = lambda *_: connected.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        assert connected.wait(PATIENCE_S)

    def publish(self, payload: str, topic: str = TOPIC) -> None:
        self._client.publish(topic, payload, qos=1).wait_for_publish(PATIENCE_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def publisher(broker: Broker) -> Iterator[Publisher]:
    publisher = Publisher(broker)
    yield publisher
    publisher.close()


class FakeHub:
    """Keeps what is published to it, and stores only when asked to."""

    def __init__(self) -> None:
        self.published: asyncio.Queue[tuple[StreamMessage, Callable[[StorageError | Refused | None], None]]] = (
            asyncio.Queue()
        )

    async def wait_for_space(self) -> None:
        return

    def publish(
        self,
        message: StreamMessage,
        user: str,
        *,
        origin: str = "",
        done: Callable[[StorageError | Refused | None], None] | None = None,
        may_be_late: bool = False,
    ) -> None:
        assert (user, origin) == (PUBLIC, "mqtt")
        assert may_be_late
        assert done is not None
        self.published.put_nowait((message, done))

    async def next(self) -> tuple[str, Callable[[StorageError | Refused | None], None]]:
        message, done = await within(PATIENCE_S, self.published.get())
        return message.content, done


def make_bridge(hub: FakeHub, broker: Broker, route: Route = Route("headgate/#")) -> MqttBridge:  # noqa: B008
    settings = MqttSettings.from_url(broker.url, client_id="bridge", routes=(route,))
    return MqttBridge(hub, settings, chance=Random(1))


@asynccontextmanager
async def running_bridge(bridge: MqttBridge) -> AsyncIterator[None]:
    task = asyncio.create_task(bridge.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def known_bridge(broker: Broker) -> None:
    """The broker knows the bridge, so that it keeps messages for it from then on."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="bridge", clean_session=False)
    connected, subscribed = threading.Event(), threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    assert connected.wait(PATIENCE_S)
    client.subscribe("headgate/#", qos=1)
    assert subscribed.wait(PATIENCE_S)
    client.disconnect()
    client.loop_stop()


def test_what_was_not_stored_is_delivered_again_to_the_next_start_and_what_was_is_not(
    broker: Broker, publisher: Publisher
) -> None:
    async def scenario() -> None:
        maker = MessageMaker(SIGNER, STREAM)
        for number in range(3):
            publisher.publish(maker.make(number).serialize())
        first = FakeHub()
        async with running_bridge(make_bridge(first, broker)):
            deliveries = dict([await first.next() for _ in range(3)])
            deliveries["0"](None)
        second = FakeHub()
        async with running_bridge(make_bridge(second, broker)):
            assert {(await second.next())[0], (await second.next())[0]} == {"1", "2"}

    asyncio.run(scenario())


def test_after_a_failure_of_the_storage_the_message_is_asked_for_again(broker: Broker, publisher: Publisher) -> None:
    async def scenario() -> None:
        publisher.publish(MessageMaker(SIGNER, STREAM).make("important").serialize())
        hub = FakeHub()
        bridge = make_bridge(hub, broker)
        async with running_bridge(bridge):
            content, done = await hub.next()
            done(StorageError("disk full"))
            again, done = await hub.next()
            done(None)
            assert content == again == '"important"'
            assert bridge.counters["unstored_payloads"] == 1

    asyncio.run(scenario())


def test_bad_payloads_and_misplaced_messages_are_counted_and_do_not_stand_in_the_way(
    broker: Broker, publisher: Publisher
) -> None:
    async def scenario() -> None:
        maker, unknown = MessageMaker(SIGNER, STREAM), MessageMaker(SIGNER, "other")
        too_large = "x" * (MAX_PACKET_BYTES + 1)  # the broker is reported, and leaves it out
        for payload in ("garbage", "", "[[[", unknown.make(1).serialize(), too_large, maker.make("good").serialize()):
            publisher.publish(payload)
        hub = FakeHub()
        bridge = make_bridge(hub, broker, Route("headgate/#", STREAM))
        async with running_bridge(bridge):
            content, done = await hub.next()
            done(None)
        assert content == '"good"'
        assert bridge.counters["disconnections"] == 0
        assert bridge.counters["bad_payloads"] == 3
        assert bridge.counters["misplaced_messages"] == 1

    asyncio.run(scenario())


def test_the_bridge_comes_back_when_the_broker_does(broker: Broker, publisher: Publisher) -> None:
    async def scenario() -> None:
        hub = FakeHub()
        bridge = make_bridge(hub, broker)
        maker = MessageMaker(SIGNER, STREAM)
        async with running_bridge(bridge):
            publisher.publish(maker.make("before").serialize())
            content, done = await hub.next()
            done(None)
            await asyncio.to_thread(broker.stop)
            await asyncio.to_thread(broker.start)
            later = await asyncio.to_thread(Publisher, broker)
            await asyncio.to_thread(later.publish, maker.make("after").serialize())
            while content != '"after"':
                content, done = await hub.next()
                done(None)
            later.close()
        assert bridge.counters["disconnections"] >= 1

    asyncio.run(scenario())


def test_a_node_that_is_killed_again_and_again_has_every_message_once_in_the_end(
    broker: Broker, publisher: Publisher, tmp_path: Path
) -> None:
    arguments = node_arguments(tmp_path / "node", "--mqtt", broker.url, "--mqtt-topic", f"headgate/#={STREAM}")
    with running(*arguments) as node:
        client = SmallClient(node.wait_for(r"node listens; address=(\S+)"), SIGNER)
        client.make_public_stream(STREAM)
        client.close()
        node.wait_for(r"(mqtt bridge subscribed)")
    maker = MessageMaker(SIGNER, STREAM)
    for round_ in range(3):
        with running(*arguments) as node:
            node.wait_for(r"(mqtt bridge connected)")
            batches = [[maker.make([round_, batch, index]) for index in range(5)] for batch in range(20)]
            for batch in batches:
                publisher.publish("[" + ",".join(message.serialize() for message in batch) + "]")
            node.kill()
    with running(*arguments) as node:
        client = SmallClient(node.wait_for(r"node listens; address=(\S+)"), SIGNER)
        client.subscribe(STREAM)
        publisher.publish(maker.make("end").serialize())
        client.read_until("end")
        stored = client.resend_last(STREAM, 10_000)
        client.close()
    expected = [[round_, batch, index] for round_ in range(3) for batch in range(20) for index in range(5)]
    assert stored == [json.dumps(each) for each in (*expected, "end")]
