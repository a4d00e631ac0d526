"""What single destinations refuse in ways of their own."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.test_publishers import Device, open_device
from tests.support.destinations import BrokerDestination, NodeDestination

pytestmark = pytest.mark.slow

JOURNAL_BYTES = 1024 * 1024 - 24  # of one message; a node takes 1024 * 1024, the request around it included


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
