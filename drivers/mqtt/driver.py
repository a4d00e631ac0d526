"""Readings from the topics of an MQTT broker.

QoS 1 messages are acknowledged to the broker only when their readings are committed, and the session is persistent:
what arrives while the agent is down waits in the broker (`runtime/mqtt`). Messages are read and acknowledged in
batches, because a packet costs more than a reading.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import ConfigError, DeviceError
from drivers.health import Quality
from drivers.mqtt.esphome import EspHome
from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Ledger, Message
from drivers.mqtt.mappings import (
    Firmware,
    FirmwareMapping,
    Subscription,
    SubscriptionMapping,
    TopicReader,
    without_covered,
)
from drivers.mqtt.mappings import Mapping as TopicMapping
from drivers.mqtt.tasmota import Tasmota
from drivers.mqtt.zigbee2mqtt import Zigbee2Mqtt
from drivers.reading import Reading, now_ms
from drivers.rejects import reason_of
from runtime.errors import LinkDown
from runtime.mqtt.link import MqttLink
from runtime.mqtt.settings import BrokerSettings, tls_problems
from runtime.settings import Between, Port, Text, check_settings

MAX_MESSAGES_PER_READ: Final = 500
MAX_PACKET_BYTES: Final = 9 * 1024 * 1024  # a payload of the largest reading, and its topic
MAX_CACHED_TOPICS: Final = 1024  # bounds the memory for a source with many topics
IDLE_S: Final = 1.0  # a silent broker is no fault; keep-alive monitors the link


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    host: Text
    port: Port = 1883
    presets: tuple[Literal["tasmota", "zigbee2mqtt", "esphome"], ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    version: Literal["5", "3.1.1"] = "5"
    client_id: str = ""  # default: headgate- and the driver's name; identifies the session, so unique per broker
    qos: Literal[0, 1] = 1
    session_expiry_s: Annotated[int, Between(0, 0xFFFFFFFF)] = 604_800  # how long the broker stores messages for us
    retained: Literal["skip", "accept"] = "skip"  # a message published before the connection has no time of its own
    keepalive_s: Annotated[int, Between(5, 3600)] = 30
    connect_timeout_s: Annotated[float, Between(0.1, 120)] = 10.0
    username: str = ""
    password_file: Path | None = None
    tls: Literal["off", "on"] = "off"
    ca_file: Path | None = None  # default: the certificates that the system trusts
    cert_file: Path | None = None
    key_file: Path | None = None

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not self.presets and not self.subscriptions:
            problems.append("subscriptions: missing; name topics here, or a format in presets")
        problems += tls_problems(self)
        if self.password_file and not self.username:
            problems.append("username: missing; password_file requires it")
        if problems:
            raise ConfigError(*problems)

    def broker(self, name: str) -> BrokerSettings:
        """The connection of the driver of this name."""
        return BrokerSettings(
            host=self.host,
            port=self.port,
            client_id=self.client_id or f"headgate-{name}",
            version=self.version,
            username=self.username or None,
            password_file=self.password_file,
            tls=self.tls,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            keepalive_s=self.keepalive_s,
            session_expiry_s=self.session_expiry_s,
            connect_timeout_s=self.connect_timeout_s,
        )


PRESETS: Final[dict[str, Callable[[], Firmware]]] = {
    "tasmota": Tasmota,
    "zigbee2mqtt": Zigbee2Mqtt,
    "esphome": EspHome,
}


def build(name: str, settings: Mapping[str, object], path: str = "") -> "MqttDriver":
    return MqttDriver(name, check_settings(MqttSettings, settings, path))


class MqttDriver(Driver):
    KIND = "mqtt"

    def __init__(self, name: str, settings: MqttSettings) -> None:
        super().__init__(name)
        self.settings = settings
        self.quality = Quality("check that the topics and formats of the settings are those of the sender")
        self._ledger = Ledger()
        self._surplus: list[Reading] = []
        self._link: MqttLink | None = None
        self._has_space = asyncio.Event()
        reject = self.rejects.note
        made = [FirmwareMapping(PRESETS[kind](), reject) for kind in settings.presets]
        own = [SubscriptionMapping(name, subscription, reject) for subscription in settings.subscriptions]
        self._mappings: list[TopicMapping] = [*made, *own]
        self._readers: dict[str, list[TopicReader]] = {}  # by topic, in the order of the mappings

    @property
    def trouble(self) -> str:
        return self.quality.trouble

    def continue_from(self, previous: Driver) -> None:
        if isinstance(previous, MqttDriver) and self._session_key() == previous._session_key():
            self._ledger = previous._ledger
            self._ledger.drop_uncommitted()

    def _session_key(self) -> tuple[str, int, str]:
        broker = self.settings.broker(self.name)
        return broker.host, broker.port, broker.client_id

    async def open(self) -> None:
        await self.close()
        filters = without_covered([topic for mapping in self._mappings for topic in mapping.filters])
        link = MqttLink(
            self.settings.broker(self.name), max_packet_bytes=MAX_PACKET_BYTES, receive_maximum=MAX_UNACKNOWLEDGED
        )
        with self._as_device_error():
            refusals = [reason for reason in await link.open(filters, self.settings.qos) if reason]
            if refusals:
                await link.close()
                raise LinkDown(f"the broker refuses a subscription: {refusals[0]}")
        self._ledger.connected(session_is_resumed=link.session_is_resumed)
        self._link = link  # not earlier: readings committed meanwhile are of another connection

    async def read(self) -> list[Reading]:
        if self._link is None:
            raise DeviceError(f"{self.name}: {self.settings.host} is not open; open it before reading")
        if not self._surplus and (free := await self._wait_for_space()):
            with self._as_device_error():
                messages = await self._link.receive(min(free, MAX_MESSAGES_PER_READ), IDLE_S)
            self._surplus = self._read_messages(messages, now_ms())
        end = _end_of_messages(self._surplus, MAX_READINGS_PER_READ)
        readings, self._surplus = self._surplus[:end], self._surplus[end:]
        return readings

    @contextmanager
    def _as_device_error(self) -> Iterator[None]:
        try:
            yield
        except (LinkDown, ConfigError) as error:
            raise DeviceError(f"{self.name}: {error}; check address, credentials and the broker's log") from error

    async def _wait_for_space(self) -> int:
        """How many more messages may be received, 0 if none in time. Brokers do not always respect the maximum."""
        if len(self._ledger) >= MAX_UNACKNOWLEDGED:
            self._has_space.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self._has_space.wait()
        return MAX_UNACKNOWLEDGED - len(self._ledger)

    async def acknowledge(self, tokens: Collection[int]) -> None:
        self._acknowledge_now(self._ledger.commit(tokens))
        self._has_space.set()

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _read_messages(self, messages: Sequence[Message], at_ms: int) -> list[Reading]:
        """The readings of messages. A message without readings is acknowledged at once."""
        readings: list[Reading] = []
        known, empty = list[int](), list[int]()
        for message, token in self._ledger.receive(messages, known):
            found = self._readings_of(message, token, at_ms)
            readings += found
            if not found and token is not None:
                empty.append(token)
        if known or empty:
            self._acknowledge_now([*known, *self._ledger.commit(empty)])
        return readings

    def _acknowledge_now(self, numbers: Collection[int]) -> None:
        """If the link is down, the broker sends the messages again, and the ledger recognises them."""
        if self._link is not None:
            self._link.acknowledge(numbers)

    def _readings_of(self, message: Message, token: int | None, at_ms: int) -> list[Reading]:
        topic, payload, _, _, is_retained = message
        if is_retained and self.settings.retained == "skip":
            return []
        found: list[Reading] | None = None
        rejected_before = self.rejects.total
        try:
            for read in self._readers.get(topic) or self._find_readers(topic):
                found = read(payload, at_ms, token)
                if found is not None:
                    break
        except ValueError as error:
            self.quality.damaged(f"{topic[:60]}: {error}")
            self.rejects.note(topic, reason_of(error), payload, at_ms)
            return []
        if found:
            self.quality.good()
        elif self.rejects.total > rejected_before:
            self.quality.damaged(f"{topic[:60]}: no field can be read")
        return found or []

    def _find_readers(self, topic: str) -> list[TopicReader]:
        """The readers of the mappings that match the topic, in their order."""
        if len(self._readers) >= MAX_CACHED_TOPICS:
            self._readers.clear()
        found = [mapping.reader(topic) for mapping in self._mappings]
        readers = self._readers[topic] = [read for read in found if read is not None]
        return readers


def _end_of_messages(readings: Sequence[Reading], most: int) -> int:
    """How many readings to return: those of one message are committed together, or some of them could be lost."""
    if len(readings) <= most:
        return len(readings)
    end, cut_token = most, readings[most].token
    while cut_token is not None and end and readings[end - 1].token == cut_token:
        end -= 1
    return end or most
