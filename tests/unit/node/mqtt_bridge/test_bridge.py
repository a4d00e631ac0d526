"""What a broker delivers, without one: a test with a real broker is in tests/integration/test_mqtt_bridge.py."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from node.mqtt_bridge.bridge import MqttBridge
from node.mqtt_bridge.settings import MqttSettings, Route
from runtime.mqtt.packets import Message


class Acknowledged:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def acknowledge(self, numbers: list[int]) -> None:
        self.numbers += numbers


@pytest.mark.parametrize(("topic", "payload"), [("sensors/\ufffd", b"{}"), ("sensors/a\nb", b"\xff")])
def test_whatever_a_broker_calls_a_topic_is_dropped_and_acknowledged(
    topic: str, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    message = Message(topic, payload, 7, is_duplicate=False, is_retained=False)
    link = Acknowledged()

    async def publish() -> MqttBridge:
        settings = MqttSettings.from_url("mqtt://h", routes=(Route("sensors/#"),), client_id="c")
        bridge = MqttBridge(cast("Any", None), settings, chance=Random(1))
        bridge._publish_all(cast("Any", link), message)
        return bridge

    assert asyncio.run(publish()).counters["bad_payloads"] == 1
    assert link.numbers == [7]
    assert "\n" not in caplog.messages[0]
