"""From an MQTT broker into the node's streams, and acknowledged only then.

    broker ── QoS 1 ──> payload ──> hub: checked, stored, passed on ──> PUBACK

Promises, each with a test that can fail:

1. What the broker brings with QoS 1 is acknowledged after it is stored. A node that dies before is brought it again,
   and what was stored already is known as a duplicate.
2. A payload that is no message, or a message that the rules refuse, is counted, reported and acknowledged: it would be
   no better the next time, and must not stand in the way of the rest.
3. Where the storage fails nothing is acknowledged. The bridge connects anew after a while, and the broker brings
   again what was not acknowledged.
4. A message that is older than the last of its chain is stored all the same: what comes again after a failure does.
5. While the hub has no room, the bridge reads nothing more; what waits, waits in the broker.

The MQTT client has a thread of its own. It hands messages to the event loop through a short queue, and while that is
full it reads nothing.
"""

import asyncio
import concurrent.futures
import logging
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from node.errors import Refused, StorageError
from node.mqtt_bridge.delivery import Delivery
from node.mqtt_bridge.payload import read_payload
from node.mqtt_bridge.settings import MqttSettings
from node.peers.backoff import Backoff
from node.streams import ANYBODY
from protocol.errors import WireError
from protocol.streamr import StreamMessage

__all__ = ["MqttBridge"]

AT_LEAST_ONCE: Final = 1
KEEP_ALIVE_S: Final = 30
FIRST_RECONNECT_S: Final = 1
LONGEST_RECONNECT_S: Final = 60
COMPLAINT_INTERVAL_S: Final = 10.0
MAX_ARRIVED: Final = 100

log = logging.getLogger(__name__)


class Inlet(Protocol):
    """Where messages go: the hub."""

    def publish(
        self,
        message: StreamMessage,
        user: str,
        *,
        done: Callable[[StorageError | None], None] | None = None,
        may_be_late: bool = False,
    ) -> None: ...

    async def room(self) -> None: ...


class _Arrived(NamedTuple):
    client: Client
    connection: int
    message: MQTTMessage


class MqttBridge:
    def __init__(self, hub: Inlet, settings: MqttSettings, *, chance: Random) -> None:
        self.counters: Counter[str] = Counter()
        self._hub = hub
        self._settings = settings
        self._backoff = Backoff(chance, first_delay_s=FIRST_RECONNECT_S, longest_delay_s=LONGEST_RECONNECT_S)
        self._client: Client | None = None
        self._connection = 0  # counts connections; an acknowledgement belongs to the one that brought the message
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived: asyncio.Queue[_Arrived] = asyncio.Queue(MAX_ARRIVED)
        self._handing_over: concurrent.futures.Future[None] | None = None
        self._is_stopping = False
        self._has_unstored = asyncio.Event()
        self._complained_s = float("-inf")

    async def run(self) -> None:
        """Listen to the broker until cancelled. A broker that cannot be reached is tried again for ever."""
        self._loop = asyncio.get_running_loop()
        self._connect()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take_forever(), name="taking mqtt messages")
                group.create_task(self._ask_again_forever(), name="asking again for what was not stored")
        finally:
            await self._disconnect()

    async def _ask_again_forever(self) -> None:
        while True:
            await self._has_unstored.wait()
            await asyncio.sleep(self._backoff.next_delay_s())
            self._has_unstored.clear()
            await self._disconnect()
            self._connect()

    def _connect(self) -> None:
        self._is_stopping = False
        self._client = self._make_client()
        self._client.connect_async(self._settings.host, self._settings.port, KEEP_ALIVE_S)
        self._client.loop_start()

    async def _disconnect(self) -> None:
        self._is_stopping = True
        if self._handing_over is not None:
            self._handing_over.cancel()
        if self._client is not None:
            self._client.disconnect()
            await asyncio.to_thread(self._client.loop_stop)

    # --- in the client's thread ---

    def _make_client(self) -> Client:
        settings = self._settings
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            clean_session=False,
            protocol=MQTTProtocolVersion.MQTTv311,
            manual_ack=True,
        )
        if settings.uses_tls:
            client.tls_set(ca_certs=str(settings.ca_file) if settings.ca_file else None)
        if settings.username is not None:
            password = settings.password_file.read_text().strip() if settings.password_file else None
            client.username_pw_set(settings.username, password)
        client.reconnect_delay_set(FIRST_RECONNECT_S, LONGEST_RECONNECT_S)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        return client

    def _on_connect(
        self, client: Client, _data: Any, _flags: ConnectFlags, code: ReasonCode, _properties: Properties | None
    ) -> None:
        if code.is_failure:
            log.error("mqtt broker refuses the bridge; broker=%s reason=%s", self._settings.host, code)
            return
        log.info("mqtt bridge connected; broker=%s:%s", self._settings.host, self._settings.port)
        client.subscribe([(route.topic_filter, AT_LEAST_ONCE) for route in self._settings.routes])

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: DisconnectFlags, code: ReasonCode, _properties: Properties | None
    ) -> None:
        self._connection += 1
        self.counters["disconnections"] += 1
        if not self._is_stopping:
            log.warning("mqtt broker gone, reconnecting; broker=%s reason=%s", self._settings.host, code)

    def _on_subscribe(
        self, _client: Client, _data: Any, _mid: int, codes: list[ReasonCode], _properties: Properties | None
    ) -> None:
        for route, code in zip(self._settings.routes, codes, strict=False):
            if not code.is_failure:
                log.info("mqtt bridge listens; topic=%s", route.topic_filter)
            else:
                log.error("mqtt broker refuses a topic; topic=%s reason=%s", route.topic_filter, code)

    def _on_message(self, client: Client, _data: Any, message: MQTTMessage) -> None:
        if self._is_stopping or self._loop is None:
            return
        arrived = _Arrived(client, self._connection, message)
        self._handing_over = asyncio.run_coroutine_threadsafe(self._arrived.put(arrived), self._loop)
        concurrent.futures.wait([self._handing_over])

    # --- in the event loop ---

    async def _take_forever(self) -> None:
        while True:
            arrived = await self._arrived.get()
            await self._hub.room()
            self._take(arrived)

    def _take(self, arrived: _Arrived) -> None:
        self.counters["payloads"] += 1
        message = arrived.message

        def acknowledge() -> None:
            if arrived.connection == self._connection:
                arrived.client.ack(message.mid, message.qos)
                self._backoff.reset()

        delivery = Delivery(acknowledge, self._give_up)
        topic = None  # a broker need not check that it is text
        try:
            topic = message.topic
            for stream_message in read_payload(bytes(message.payload)):
                self._publish(stream_message, topic, delivery)
        except (WireError, UnicodeDecodeError) as problem:
            self.counters["bad_payloads"] += 1
            self._complain("mqtt payload is no stream message, dropped; topic=%r problem=%s", topic, problem)
        delivery.close()

    def _publish(self, message: StreamMessage, topic: str, delivery: Delivery) -> None:
        stream_id = message.message_id.stream_id
        if not any(route.takes(topic, stream_id) for route in self._settings.routes):
            self.counters["misplaced_messages"] += 1
            self._complain(
                "mqtt message is of a stream that its topic is not for; topic=%r stream=%r", topic, stream_id
            )
            return
        done = delivery.expect()
        try:
            self._hub.publish(message, ANYBODY, done=done, may_be_late=True)
            self.counters["messages"] += 1
        except Refused as problem:
            done(None)
            self.counters["refused_messages"] += 1
            self._complain("mqtt message refused; topic=%r problem=%s", topic, problem)

    def _give_up(self, problem: StorageError) -> None:
        self.counters["unstored_payloads"] += 1
        self._complain("mqtt message not stored, will be asked for again; problem=%s", problem)
        self._has_unstored.set()

    def _complain(self, text: str, *arguments: object) -> None:
        """Tell the operator, but not with every one of many; the counters have them all."""
        now_s = time.monotonic()
        if now_s - self._complained_s >= COMPLAINT_INTERVAL_S:
            self._complained_s = now_s
            log.warning(text, *arguments)
