"""The publisher for MQTT brokers: QoS 1, version 5 or 3.1.1, with TLS or without. Acknowledged by PUBACK.

What is in flight is in memory, so there are never more than `MAX_WINDOW` publications and `MAX_UNDER_WAY_BYTES`; what
waits is packed, several messages into one publication, which happens by itself while a backlog is drained. A pack of
readings that is sent as ioMessages takes one publication per reading, and is acknowledged when all of them are.

The session is persistent on the broker's side. On our side every connection begins anew: the journal remembers what
was not acknowledged, and it must not be stored twice.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent.errors import LinkDown
from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, OutcomeQueue, RejectedRun, run_of
from agent.publish.mqtt_payload import PayloadForm, Publication, pack
from runtime.errors import ConfigError
from runtime.mqtt.link import MqttLink
from runtime.mqtt.settings import BrokerSettings

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

MAX_WINDOW: Final = 100  # publications
MAX_UNDER_WAY_BYTES: Final = 8 * 1024 * 1024
MAX_IN_FLIGHT: Final = 1_600  # messages
MAX_PUBLICATION_BYTES: Final = 2 * 1024 * 1024
MAX_RECEIVED_BYTES: Final = 64 * 1024  # a publisher subscribes to nothing
_TEMPORARY: Final = (0x80, 0x83, 0x91, 0x97)  # unspecified, implementation specific, id in use, quota exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    broker: BrokerSettings
    topic: str = "{stream}"  # may hold {stream}, {partition}, {publisher}, {chain}
    payload: PayloadForm = "stream_message"
    messages_per_publication: int = 64  # at most, and only of what waits; 1: never pack


class MqttPublisher:
    max_in_flight = MAX_IN_FLIGHT

    def __init__(self, name: str, settings: MqttSettings) -> None:
        self.name = name
        self._settings = settings
        self._window: _Window | None = None

    async def connect(self) -> None:
        await self.close()
        self._window = _Window(self._settings)
        await self._window.open()

    async def send(self, records: Sequence[Record]) -> None:
        await self._require_window().send(records)

    async def outcomes(self) -> Sequence[Outcome]:
        return await self._require_window().box.take()

    async def close(self) -> None:
        window, self._window = self._window, None
        if window is not None:
            await window.close()

    def _require_window(self) -> "_Window":
        if self._window is None:
            raise LinkDown(f"{self._settings.broker.url}: not connected")
        return self._window


class _Window:
    """One connection, and the publications on it that wait for their PUBACK."""

    def __init__(self, settings: MqttSettings) -> None:
        self.box = OutcomeQueue()
        self._settings = settings
        self._link = MqttLink(
            settings.broker, max_packet_bytes=MAX_RECEIVED_BYTES, published=self._on_published, ended=self._on_end
        )
        self._waiting: dict[int, Publication] = {}  # by the publication's number
        self._missing_parts: dict[tuple[int, int], int] = {}  # of records in flight, by lane and first position
        self._waiting_bytes = 0
        self._max_publications = MAX_WINDOW
        self._max_bytes = MAX_PUBLICATION_BYTES
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def open(self) -> None:
        """Raises: LinkDown."""
        try:
            await self._link.open()
        except ConfigError as error:
            raise LinkDown(str(error)) from error
        properties = self._link.properties
        self._max_publications = min(MAX_WINDOW, getattr(properties, "ReceiveMaximum", MAX_WINDOW))
        self._max_bytes = min(MAX_PUBLICATION_BYTES, getattr(properties, "MaximumPacketSize", MAX_PUBLICATION_BYTES))

    async def close(self) -> None:
        await self._link.close()

    async def send(self, records: Sequence[Record]) -> None:
        self.box.check()
        packed = pack(
            records,
            self._settings.topic,
            self._settings.payload,
            max_messages=self._settings.messages_per_publication,
            max_bytes=self._max_bytes,
        )
        for publication in packed:
            if isinstance(publication, Publication):
                await self._publish(publication)
            else:
                self.box.put(publication)

    async def _publish(self, publication: Publication) -> None:
        await self._has_room.wait()
        self.box.check()
        if publication.part == 0:
            self._missing_parts[_place(publication)] = publication.parts
        elif _place(publication) not in self._missing_parts:
            return  # the broker has rejected an earlier part
        self._waiting[self._link.publish(publication.topic, publication.payload)] = publication
        self._waiting_bytes += len(publication.payload)
        self._note_space()

    def _note_space(self) -> None:
        if len(self._waiting) >= self._max_publications or self._waiting_bytes >= MAX_UNDER_WAY_BYTES:
            self._has_room.clear()
        else:
            self._has_room.set()

    def _on_end(self, problem: LinkDown) -> None:
        self.box.fail(problem)
        self._has_room.set()

    def _on_published(self, number: int, reason: "ReasonCode") -> None:
        publication = self._waiting.pop(number, None)
        if publication is None:
            return
        self._waiting_bytes -= len(publication.payload)
        self._note_space()
        if not reason.is_failure:
            self.box.put(*self._acknowledge(publication))
        elif reason.value in _TEMPORARY:
            self.box.fail(LinkDown(f"{self._settings.broker.url}: the broker does not accept messages: {reason}"))
        else:
            self._reject(publication, reason)

    def _acknowledge(self, publication: Publication) -> list[Outcome]:
        """The outcome, once the broker has acknowledged all publications of these records."""
        place = _place(publication)
        missing = self._missing_parts.pop(place, 0) - 1
        if missing > 0:
            self._missing_parts[place] = missing
        return [] if missing else [Acknowledged(*run_of(publication.records))]

    def _reject(self, publication: Publication, reason: "ReasonCode") -> None:
        """Once for each record, whatever becomes of the other publications that hold it."""
        if self._missing_parts.pop(_place(publication), 0):
            problem = f"{self._settings.broker.url}: {publication.topic}: {reason}"
            self.box.put(RejectedRun(*run_of(publication.records), problem))


def _place(publication: Publication) -> tuple[int, int]:
    return publication.records[0].lane, publication.records[0].position
