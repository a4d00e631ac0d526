"""Readings that others publish to an MQTT broker.

QoS 1 messages are acknowledged to the broker only when their readings are committed, and the session is persistent:
what arrives while the agent is away waits in the broker. There is no thread: paho is driven by the event loop. When
more waits here than `MAX_WAITING`, the socket is left alone, and the broker keeps the rest. What waits in the socket is
read at once, and what one commit made safe is acknowledged at once: a message alone costs more than its reading.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import DeviceError
from drivers.health import Quality
from drivers.mqtt.connection import MqttConnection
from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Ledger, Message
from drivers.mqtt.mappings import FirmwareMapping, SubscriptionMapping, TopicReader
from drivers.mqtt.mappings import Mapping as TopicMapping
from drivers.mqtt.ready_made import READY_MADE
from drivers.mqtt.settings import MqttSettings
from drivers.reading import Reading, now_ms
from drivers.settings import check_settings

MAX_MESSAGES_PER_READ: Final = 500
MAX_REMEMBERED_TOPICS: Final = 1024  # a source that invents topics costs time, not memory
IDLE_S: Final = 1.0  # silence is no fault of a broker; the link itself is watched by keep-alive


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
        self._connection: MqttConnection | None = None
        self._has_room = asyncio.Event()
        made = [FirmwareMapping(READY_MADE[kind]()) for kind in settings.ready_made]
        own = [SubscriptionMapping(name, subscription) for subscription in settings.subscriptions]
        self._mappings: list[TopicMapping] = [*made, *own]
        self._readers: dict[str, list[TopicReader]] = {}  # by topic, first come first asked

    @property
    def trouble(self) -> str:
        return self.quality.trouble

    async def open(self) -> None:
        await self.close()
        filters = [topic for mapping in self._mappings for topic in mapping.filters]
        connection = MqttConnection(self.name, self.settings)
        self._connection = connection
        await connection.open(filters)

    async def read(self) -> list[Reading]:
        if self._connection is None:
            raise DeviceError(f"{self.name}: {self.settings.host} is not open; open it before reading")
        if not self._surplus and (room := await self._wait_for_room()):
            messages = await self._connection.receive(min(room, MAX_MESSAGES_PER_READ), IDLE_S)
            self._surplus = self._take(messages, now_ms())
        end = _end_of_messages(self._surplus, MAX_READINGS_PER_READ)
        readings, self._surplus = self._surplus[:end], self._surplus[end:]
        return readings

    async def _wait_for_room(self) -> int:
        """How many more messages may be handed over, 0 if none in time. Brokers do not always keep to the maximum."""
        if len(self._ledger) >= MAX_UNACKNOWLEDGED:
            self._has_room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_room.wait(), IDLE_S)
        return MAX_UNACKNOWLEDGED - len(self._ledger)

    async def acknowledge(self, tokens: Collection[int]) -> None:
        self._acknowledge_now(self._ledger.commit(tokens))
        self._has_room.set()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _take(self, messages: Sequence[Message], at_ms: int) -> list[Reading]:
        """The readings of messages. What gives none is acknowledged here: there is nothing to commit."""
        readings: list[Reading] = []
        known, empty = list[int](), list[int]()
        for message, token in self._ledger.hand_over(messages, known):
            found = self._readings_of(message, token, at_ms)
            readings += found
            if not found and token is not None:
                empty.append(token)
        if known or empty:
            self._acknowledge_now([*known, *self._ledger.commit(empty)])
        return readings

    def _acknowledge_now(self, numbers: Collection[int]) -> None:
        """If the link is down, the broker sends the messages again, and the ledger knows them."""
        if self._connection is not None:
            self._connection.acknowledge(numbers)

    def _readings_of(self, message: Message, token: int | None, at_ms: int) -> list[Reading]:
        topic, payload, _, _, is_retained = message
        if is_retained and self.settings.retained == "skip":
            return []
        found: list[Reading] | None = None
        try:
            for read in self._readers.get(topic) or self._find_readers(topic):
                found = read(payload, at_ms, token)
                if found is not None:
                    break
        except ValueError as error:
            self.quality.damaged(f"{topic[:60]}: {error}")
            return []
        if not found:
            return []
        self.quality.good()
        return found

    def _find_readers(self, topic: str) -> list[TopicReader]:
        """By the mappings that the topic is for, in their order."""
        if len(self._readers) >= MAX_REMEMBERED_TOPICS:
            self._readers.clear()
        found = [mapping.reader(topic) for mapping in self._mappings]
        readers = self._readers[topic] = [read for read in found if read is not None]
        return readers


def _end_of_messages(readings: Sequence[Reading], most: int) -> int:
    """How many to give at a time: the readings of one message are committed together, or some of them could be lost."""
    if len(readings) <= most:
        return len(readings)
    end, cut_token = most, readings[most].token
    while cut_token is not None and end and readings[end - 1].token == cut_token:
        end -= 1
    return end or most
