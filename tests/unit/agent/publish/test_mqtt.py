"""The publisher with a broker that a test owns; `tests/integration/test_publishers.py` has a real one."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, RejectedRun
from agent.publish.mqtt import MqttPublisher, MqttSettings
from runtime.mqtt.settings import BrokerSettings
from tests.support.pack_samples import binary_content, linked_readings, unsigned_message
from tests.support.patience import PATIENCE_S
from tests.support.publish_records import record
from tests.support.within import within

GOOD = SimpleNamespace(is_failure=False, value=0)
REFUSED = SimpleNamespace(is_failure=True, value=0x87)


class FakeLink:
    """Holds what is published, until the test acknowledges it."""

    opened: ClassVar[list["FakeLink"]] = []

    def __init__(self, _settings: BrokerSettings, *, published: Callable[[int, Any], None], **_rest: object) -> None:
        self.properties = SimpleNamespace(ReceiveMaximum=20)
        self.payloads: list[bytes] = []
        self._published = published
        self.opened.append(self)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def publish(self, _topic: str, payload: bytes) -> int:
        self.payloads.append(payload)
        return len(self.payloads) - 1

    def answer(self, number: int, reason: object = GOOD) -> None:
        self._published(number, reason)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[FakeLink]:
    monkeypatch.setattr("agent.publish.mqtt.MqttLink", FakeLink)
    FakeLink.opened.clear()
    return FakeLink


async def connected() -> MqttPublisher:
    publisher = MqttPublisher(
        "mqtt", MqttSettings(broker=BrokerSettings(host="h", port=1, client_id="c"), payload="io_message")
    )
    await publisher.connect()
    return publisher


def pack_record(position: int, count: int) -> Record:
    payload = unsigned_message(binary_content(linked_readings(count))).serialize().encode()
    return record(position, payload=payload, readings=count)


def test_a_pack_is_acknowledged_when_all_its_readings_are(broker: type[FakeLink]) -> None:
    async def scenario() -> None:
        publisher = await connected()
        await publisher.send([pack_record(0, 3), pack_record(3, 1)])
        link = broker.opened[-1]
        assert link.payloads[:3] == [each.to_bytes() for each in linked_readings(3)]
        assert len(link.payloads) == 4
        link.answer(3)
        assert list(await publisher.outcomes()) == [Acknowledged(0, 3, 3)]
        link.answer(0)
        link.answer(2)
        assert list(await publisher.outcomes()) == [], "the broker responds, so the link is not dead"
        link.answer(1)
        assert list(await publisher.outcomes()) == [Acknowledged(0, 0, 2)]

    asyncio.run(within(PATIENCE_S, scenario()))


def test_a_pack_of_which_one_reading_is_refused_is_rejected_once(broker: type[FakeLink]) -> None:
    async def scenario() -> None:
        publisher = await connected()
        await publisher.send([pack_record(0, 4)])
        link = broker.opened[-1]
        link.answer(0)
        link.answer(1, REFUSED)
        link.answer(2, REFUSED)
        link.answer(3)
        outcomes: Sequence[Outcome] = await publisher.outcomes()
        assert [type(each) for each in outcomes] == [RejectedRun]
        assert outcomes[0][:3] == (0, 0, 3)

    asyncio.run(within(PATIENCE_S, scenario()))


def test_a_pack_with_more_readings_than_may_be_in_flight_goes_out_as_they_are_acknowledged(
    broker: type[FakeLink],
) -> None:
    async def scenario() -> None:
        publisher = await connected()
        sending = asyncio.ensure_future(publisher.send([pack_record(0, 50)]))
        await asyncio.sleep(0)
        link = broker.opened[-1]
        assert len(link.payloads) == 20
        for number in range(50):
            link.answer(number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await sending
        assert link.payloads == [each.to_bytes() for each in linked_readings(50)]
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes += await publisher.outcomes()
        assert outcomes == [Acknowledged(0, 0, 49)]

    asyncio.run(within(PATIENCE_S, scenario()))


def test_the_rest_of_a_refused_pack_is_not_sent(broker: type[FakeLink]) -> None:
    async def scenario() -> None:
        publisher = await connected()
        sending = asyncio.ensure_future(publisher.send([pack_record(0, 50), pack_record(50, 1)]))
        await asyncio.sleep(0)
        link = broker.opened[-1]
        link.answer(0, REFUSED)
        await sending
        assert len(link.payloads) == 21, "those in flight before, and the next message"

    asyncio.run(within(PATIENCE_S, scenario()))
