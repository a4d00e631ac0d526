"""A real agent and a real broker: one field that cannot be read costs only itself, and leaves a trace everywhere."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import cbor2
import pytest

from protocol.lifecycle import RejectedNotice
from tests.support.brokers import Broker
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, readings_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto")]

DRIVER = """
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {port}
[[drivers.plant.subscriptions]]
topic = "plant/{{sensor}}"
format = "json"
[drivers.plant.subscriptions.quantities.Temp]
[drivers.plant.subscriptions.quantities.Hum]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as broker:
        yield broker


def test_good_fields_are_kept_and_the_rest_is_counted_shown_and_reported(tmp_path: Path, broker: Broker) -> None:
    agent = Agent.make(tmp_path / "agent", rate_hz=1, extra=DRIVER.format(port=broker.port))
    payload = b'{"Temp":"19,4","Hum":55}'
    with agent.start() as process:
        wait_until(lambda: "device up; device=plant" in agent.log(), "it is subscribed")
        broker.publish(*[("plant/boiler", payload)] * 20)
        wait_until(lambda: _contents(agent, "Hum") == [55.0] * 20, "the good fields are published")
        wait_until(lambda: _status(agent)["total"] == 20, "the status counts the others")
        wait_until(lambda: _contents(agent, "headgate/rejected"), "an event is published")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert _status(agent)["kinds"] == [{"sensor": "boiler", "reason": "Temp is not a number", "count": 20}]
    notices = [RejectedNotice.from_bytes(each) for each in _raw_contents(agent, "headgate/rejected")]
    assert sum(notice.count for notice in notices) == 20
    assert agent.log().count("input could not be parsed") == 1
    listed = subprocess.run(
        agent.command("rejected", "plant", "--json", "--config", str(agent.config)), check=True, capture_output=True
    )
    assert len(listed.stdout.splitlines()) == 9, "the first eight, and the sixteenth"
    shown = subprocess.run(
        agent.command("rejected", "--show", "1", "--config", str(agent.config)), check=True, capture_output=True
    )
    assert shown.stdout == payload


def test_a_sensor_that_stops_sending_is_silent(tmp_path: Path, broker: Broker) -> None:
    extra = DRIVER.format(port=broker.port).replace("[[drivers", "silence_s = 2\n[[drivers", 1)
    agent = Agent.make(tmp_path / "agent", rate_hz=1, extra=extra)
    with agent.start() as process:
        wait_until(lambda: "device up; device=plant" in agent.log(), "it is subscribed")
        broker.publish(("plant/boiler", b'{"Hum":1}'))
        wait_until(lambda: "device silent; device=plant" in agent.log(), "its silence is noticed")
        wait_until(lambda: _device(agent)["state"] == "silent", "the status has it")
        broker.publish(("plant/boiler", b'{"Hum":2}'))
        wait_until(lambda: _device(agent)["state"] == "up", "it is up again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def _device(agent: Agent) -> dict[str, object]:
    for _ in range(100):
        try:
            found: dict[str, object] = json.loads((agent.folder / "data" / "status.json").read_text())["devices"][
                "plant"
            ]
        except FileNotFoundError:
            time.sleep(0.05)
        else:
            return found
    raise AssertionError("there is no status")


def _status(agent: Agent) -> dict[str, object]:
    rejected = _device(agent)["rejected"]
    assert isinstance(rejected, dict)
    return rejected


def _raw_contents(agent: Agent, quantity: str) -> list[bytes]:
    found = readings_of(*agent.messages())
    return [io.content_data or b"" for io in found if io.info_type == quantity]


def _contents(agent: Agent, quantity: str) -> list[object]:
    return [cbor2.loads(each) for each in _raw_contents(agent, quantity)]
