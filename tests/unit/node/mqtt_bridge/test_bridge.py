"""What a broker hands over, without one: a test with a real broker is in tests/integration/test_mqtt_bridge.py."""

import asyncio
from random import Random
from typing import Any, cast

import pytest
from paho.mqtt.client import MQTTMessage

from node.mqtt_bridge.bridge import MqttBridge, _Arrived
from node.mqtt_bridge.settings import MqttSettings, Route


class Acknowledged:
    def __init__(self) -> None:
        self.mids: list[int] = []

    def ack(self, mid: int, _qos: int) -> None:
        self.mids.append(mid)


@pytest.mark.parametrize(("topic", "payload"), [(b"sensors/\xff", b"{}"), (b"sensors/a\nb", b"\xff")])
def test_whatever_a_broker_calls_a_topic_is_dropped_and_acknowledged(
    topic: bytes, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    message = MQTTMessage(7, topic)
    message.payload = payload
    client = Acknowledged()

    async def take() -> MqttBridge:
        settings = MqttSettings(host="h", port=1883, routes=(Route("sensors/#"),), client_id="c")
        bridge = MqttBridge(cast("Any", None), settings, chance=Random(1))
        bridge._take(_Arrived(cast("Any", client), 0, message))
        return bridge

    assert asyncio.run(take()).counters["bad_payloads"] == 1
    assert client.mids == [7]
    assert "\n" not in caplog.messages[0]
