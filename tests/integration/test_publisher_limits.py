"""What single destinations refuse in ways of their own."""

import asyncio
import json
from pathlib import Path

import pytest

from agent.publish.contract import Acknowledged, Outcome
from agent.publish.mqtt import MqttPublisher, MqttSettings
from runtime.mqtt.settings import BrokerSettings
from tests.integration.test_publishers import Device, open_device
from tests.support.destinations import BrokerDestination, NodeDestination
from tests.support.pack_samples import binary_content, linked_readings, unsigned_message
from tests.support.patience import PATIENCE_S
from tests.support.publish_records import record
from tests.support.within import within

pytestmark = pytest.mark.slow

JOURNAL_BYTES = 1024 * 1024 - 30  # of one message; a node takes 1024 * 1024, the request around it included


def reasons(device: Device) -> list[str]:
    return [json.loads(line)["reason"] for line in device.quarantine.read_text().splitlines()]


@pytest.mark.needs("mosquitto", "mosquitto")
def test_a_topic_that_a_broker_forbids_sets_its_messages_aside(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "acl").write_text("topic readwrite #\ntopic deny forbidden/#\n")
    destination = BrokerDestination(folder, more_configuration=f"acl_file {folder}/acl")
    destination.start()

    async def scenario() -> Device:
        with open_device(tmp_path, destination, destination.port) as device:
            device.store_some(2)
            message = device.next_message("slow")
            device.store(message.replace(message_id=message.message_id._replace(stream_id="forbidden/stream")))
            device.store(*(device.next_message(chain) for chain in ("fast", "slow", "rare")))
            await device.drain()
            return device

    try:
        device = asyncio.run(scenario())
    finally:
        destination.close()
    assert (device.delivery.status.messages_acknowledged, device.delivery.status.messages_quarantined) == (9, 1)
    assert "Not authorized" in reasons(device)[0]


@pytest.mark.needs("mosquitto", "mosquitto")
def test_a_consumer_of_io_messages_gets_one_publication_per_reading(tmp_path: Path) -> None:
    """Packs and single readings alike; the window of the broker is smaller than the pack."""
    destination = BrokerDestination(tmp_path / "broker", more_configuration="max_inflight_messages 20")
    destination.start()
    readings = linked_readings(253)
    contents = [binary_content(readings[:250]), binary_content(readings[250:251]), binary_content(readings[251:])]
    first_positions, counts = (0, 250, 251), (250, 1, 2)
    records = [
        record(position, payload=unsigned_message(content, number).serialize().encode(), readings=count)
        for number, (position, content, count) in enumerate(zip(first_positions, contents, counts, strict=True))
    ]

    async def scenario() -> list[Outcome]:
        broker = BrokerSettings(host="127.0.0.1", port=destination.port, client_id="device")
        publisher = MqttPublisher("mqtt", MqttSettings(broker=broker, payload="io_message"))
        await publisher.connect()
        await publisher.send(records)
        outcomes: list[Outcome] = []
        while len(outcomes) < 3:
            outcomes += await publisher.outcomes()
        await publisher.close()
        return outcomes

    try:
        outcomes = asyncio.run(within(PATIENCE_S, scenario()))
        payloads = destination.subscriber.payloads(253)
    finally:
        destination.close()
    assert sorted(outcomes) == [Acknowledged(0, 0, 249), Acknowledged(0, 250, 250), Acknowledged(0, 251, 252)]
    assert payloads == [each.to_bytes() for each in readings]


def test_a_message_too_big_for_a_node_is_found_and_quarantined(tmp_path: Path) -> None:
    """The node closes the websocket without a word about which message it was."""
    destination = NodeDestination(tmp_path, "websocket")
    destination.start()

    async def scenario() -> Device:
        with open_device(tmp_path, destination, destination.port) as device:
            device.store_some(5)
            small = device.next_message("rare", padding="")
            padding = "x" * (JOURNAL_BYTES - len(small.serialize()))
            device.store(small, device.next_message("slow", padding=padding))
            device.store_some(5)
            await device.drain()
            return device

    try:
        device = asyncio.run(scenario())
        received = destination.received(30)
    finally:
        destination.stop()
    assert device.delivery.status.messages_quarantined == 1
    assert len(reasons(device)) == 1  # in the node's words, or ours where the close came too fast to be heard
    assert sorted(content["n"] for content in received if content["chain"] == "slow") == [*range(5), *range(6, 11)]
