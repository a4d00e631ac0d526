"""Readings from a broker, and an agent that is killed in the middle of them: none is lost."""

import random
import signal
import time
from pathlib import Path

import cbor2
import pytest

from testbed.running_agent import Agent, assert_whole, io_message, wait_until
from tests.integration.drivers.brokers import Broker

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto")]

KILLS = 6
READINGS_PER_LIFE = 400
DRIVER = """
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {port}
[[drivers.plant.subscriptions]]
topic = "plant/{{sensor}}/{{quantity}}"
"""


def test_what_a_killed_agent_had_not_committed_comes_again_from_the_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.start()
    agent = Agent.make(tmp_path / "agent", rate_hz=1, extra=DRIVER.format(port=broker.port))
    chance = random.Random(11)
    try:
        with agent.start() as process:  # the session begins here
            wait_until(lambda: "device up; device=plant" in agent.log(), "it is subscribed")
            process.kill()
        for life in range(KILLS):
            with agent.start() as process:
                wait_until(lambda life=life: agent.log().count("running; ") > life + 1, "it runs")  # type: ignore[misc]
                broker.publish(*_readings(life))
                time.sleep(chance.uniform(0, 0.2))
                process.kill()
        expected = set(range(KILLS * READINGS_PER_LIFE))
        with agent.start() as process:
            wait_until(lambda: _values(agent) >= expected, "every reading is published")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        broker.stop()
    assert_whole(agent.messages())
    assert _values(agent) == expected


def _readings(life: int) -> list[tuple[str, bytes]]:
    first = life * READINGS_PER_LIFE
    return [("plant/boiler/pressure", b"%d" % number) for number in range(first, first + READINGS_PER_LIFE)]


def _values(agent: Agent) -> set[int]:
    found = (io_message(message) for message in agent.messages())
    return {round(cbor2.loads(io.content_data or b"")) for io in found if io.info_type == "pressure"}
