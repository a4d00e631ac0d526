"""The MQTT bridge: stores the messages of an MQTT broker in the node's streams and acknowledges each once it is stored.

    broker ── QoS 1 ──> payload ──> hub: checked, stored, passed on ──> PUBACK

Promises, each with a test that can fail:

1. A QoS 1 message is acknowledged after it is stored. If the node dies before that, the broker delivers it again, and
   what was already stored is recognised as a duplicate.
2. A payload that is not a stream message, or a message that the rules refuse, is counted, reported and acknowledged: a
   second delivery would not help, and it must not block the rest.
3. If the storage fails, nothing is acknowledged. The bridge reconnects after a while, and the broker delivers again
   what was not acknowledged.
4. A message older than the last one of its chain is stored too: redelivered messages are.
5. While the hub's queue is full, the bridge reads nothing; the messages wait in the broker.

A payload is one serialised stream message, or a JSON array of them.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

from node.errors import ConfigError, Refused, StorageError
from node.mqtt_bridge.settings import MqttSettings
from node.streams import PUBLIC
from protocol.errors import Corrupt, WireError
from protocol.streamr.checks import FieldError, wire_error
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.codec import read_stream_message
from protocol.streamr.stream_message.parts import STREAM_VERSIONS
from runtime.backoff import Backoff
from runtime.errors import LinkDown
from runtime.mqtt.link import MqttLink
from runtime.mqtt.packets import Message

ORIGIN: Final = "mqtt"  # is charged for the chains of the bridge
RECONNECT: Final = Backoff(first_s=1.0, max_s=60.0)
REPORT_INTERVAL_S: Final = 10.0
MAX_RECEIVED: Final = 100  # messages at a time
IDLE_S: Final = 1.0
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
MAX_MESSAGES: Final = 10_000  # in one payload
MAX_PACKET_BYTES: Final = MAX_PAYLOAD_BYTES + 128 * 1024  # and the topic

log = logging.getLogger(__name__)


class Inlet(Protocol):
    """The part of the hub that the bridge uses."""

    def publish(
        self,
        message: StreamMessage,
        user: str,
        *,
        origin: str = "",
        done: Callable[[StorageError | Refused | None], None] | None = None,
        may_be_late: bool = False,
    ) -> None: ...

    async def wait_for_space(self) -> None: ...


class Delivery:
    """Counts the stream messages of one MQTT message until the last is stored, then acknowledges it, once.

    If one could not be stored, nothing is acknowledged, and the broker delivers the whole message again.
    """

    def __init__(self, acknowledge: Callable[[], None], give_up: Callable[[StorageError], None]) -> None:
        self._acknowledge = acknowledge
        self._give_up = give_up
        self._outstanding = 1  # the delivery itself, until `close`: the first message may be stored before the last
        self._has_failed = False

    def expect(self) -> Callable[[StorageError | None], None]:
        """A callback for one more stream message, to be called when it is stored or has failed."""
        self._outstanding += 1
        return self._settle

    def close(self) -> None:
        """Expect no more stream messages."""
        self._settle(None)

    def _settle(self, problem: StorageError | None) -> None:
        self._outstanding -= 1
        if problem is not None and not self._has_failed:
            self._has_failed = True
            self._give_up(problem)
        if self._outstanding == 0 and not self._has_failed:
            self._acknowledge()


class MqttBridge:
    def __init__(self, hub: Inlet, settings: MqttSettings, *, chance: Random) -> None:
        self.counters: Counter[str] = Counter()
        self._hub = hub
        self._settings = settings
        self._chance = chance
        self._failures = 0  # since something was last acknowledged
        self._unstored: StorageError | None = None
        self._reported_at_s = float("-inf")

    async def run(self) -> None:
        """Listen to the broker until cancelled. Retries for ever if the broker cannot be reached."""
        while True:
            link = MqttLink(self._settings.broker, max_packet_bytes=MAX_PACKET_BYTES)
            try:
                await self._open(link)
                await self._receive(link)
            except (LinkDown, ConfigError) as problem:
                self.counters["disconnections"] += 1
                log.warning("mqtt broker disconnected, reconnecting; problem=%s", problem)
            finally:
                await link.close()
            self._failures += 1
            await asyncio.sleep(RECONNECT.wait_s(self._failures, self._chance.random()))

    async def _open(self, link: MqttLink) -> None:
        """Raises: LinkDown, ConfigError."""
        filters = [route.topic_filter for route in self._settings.routes]
        refusals = await link.open(filters)
        log.info("mqtt bridge connected; broker=%s", self._settings.broker.url)
        for topic_filter, refusal in zip(filters, refusals, strict=False):
            if refusal:
                log.error("mqtt broker refused a subscription; topic=%s reason=%s", topic_filter, refusal)
            else:
                log.info("mqtt bridge subscribed; topic=%s", topic_filter)

    async def _receive(self, link: MqttLink) -> None:
        """Publish what the broker delivers, until something could not be stored. Raises: LinkDown."""
        self._unstored = None
        while self._unstored is None:
            for message in await link.receive(MAX_RECEIVED, IDLE_S):
                await self._hub.wait_for_space()
                self._publish_all(link, message)

    def _publish_all(self, link: MqttLink, message: Message) -> None:
        self.counters["payloads"] += 1

        def acknowledge() -> None:
            self._failures = 0
            if message.number:
                link.acknowledge([message.number])

        delivery = Delivery(acknowledge, self._give_up)
        try:
            for stream_message in read_payload(message.payload):
                self._publish(stream_message, message.topic, delivery)
        except WireError as problem:
            self.counters["bad_payloads"] += 1
            self._report("mqtt payload dropped, not a stream message; topic=%r problem=%s", message.topic, problem)
        delivery.close()

    def _publish(self, message: StreamMessage, topic: str, delivery: Delivery) -> None:
        stream_id = message.message_id.stream_id
        if not any(route.accepts(topic, stream_id) for route in self._settings.routes):
            self.counters["misplaced_messages"] += 1
            self._report(
                "mqtt message dropped, its stream is not accepted on this topic; topic=%r stream=%r", topic, stream_id
            )
            return
        settle = delivery.expect()

        def done(problem: StorageError | Refused | None) -> None:
            """Acknowledge also what is refused for good, so that it does not block the rest."""
            if isinstance(problem, Refused):
                self.counters["refused_messages"] += 1
                self._report("mqtt message refused; topic=%r problem=%s", topic, problem)
            settle(None if isinstance(problem, Refused) else problem)

        try:
            self._hub.publish(message, PUBLIC, origin=ORIGIN, done=done, may_be_late=True)
            self.counters["messages"] += 1
        except Refused as problem:
            done(problem)

    def _give_up(self, problem: StorageError) -> None:
        self.counters["unstored_payloads"] += 1
        self._report("mqtt message not stored, reconnecting to receive it again; problem=%s", problem)
        self._unstored = problem

    def _report(self, text: str, *arguments: object) -> None:
        """Log a problem, at most one every `REPORT_INTERVAL_S`; the counters have all of them."""
        now_s = time.monotonic()
        if now_s - self._reported_at_s >= REPORT_INTERVAL_S:
            self._reported_at_s = now_s
            log.warning(text, *arguments)


def read_payload(payload: bytes) -> list[StreamMessage]:
    """Every message in the payload, in order. Raises: `WireError`, if one of them is invalid."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Corrupt(f"payload of {len(payload)} bytes is longer than {MAX_PAYLOAD_BYTES}")
    parsed = decode_json(payload)
    if type(parsed) is list and parsed and all(type(element) in (list, str) for element in parsed):
        return _read_each(parsed)
    return [_read(parsed, "")]


def _read_each(elements: list[Any]) -> list[StreamMessage]:
    if len(elements) > MAX_MESSAGES:
        raise Corrupt(f"{len(elements)} messages in one payload are more than {MAX_MESSAGES}")
    return [_read(element, f"[{index}]") for index, element in enumerate(elements)]


def _read(element: Any, place: str) -> StreamMessage:
    try:
        return read_stream_message(element, draft=False, versions=STREAM_VERSIONS)
    except FieldError as problem:
        raise wire_error(problem.within(place)) from None
