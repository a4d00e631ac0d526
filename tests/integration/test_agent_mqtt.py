"""MQTT in, MQTT out: a whole agent between two real brokers, with and without TLS."""

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import cbor2
import pytest

from protocol.streamr.stream_message import StreamMessage
from tests.support.brokers import Broker
from tests.support.certificates import make_certificate
from tests.support.destinations import BrokerDestination
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, assert_whole, readings_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto")]

BURST = 200

CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[journal]
commit_interval_s = 0.02
[drivers.plant]
driver = "mqtt"
host = "localhost"
port = {source_port}
{source_tls}
[[drivers.plant.subscriptions]]
topic = "plant/{{sensor}}/{{quantity}}"
[[streams]]
stream = "{{address}}/plant"
max_readings_per_message = 50
[publishers.out]
kind = "mqtt"
host = "127.0.0.1"
port = {destination_port}
messages_per_publication = 16
deadline_s = {deadline_s}
retry_max_s = 1.0
{destination_tls}
[status]
every_s = 0.1
"""


class Between:
    """An agent whose source and destination are brokers."""

    def __init__(self, folder: Path, *, use_tls: bool) -> None:
        self.source = Broker(folder)
        self.destination = BrokerDestination(folder / "far", use_tls=use_tls)
        self.agent = Agent.make(folder / "agent")
        self._folder = folder
        self._use_tls = use_tls
        self._published = 0
        if use_tls:
            certificate, key = make_certificate(folder, "localhost")
            self.source.add_tls_listener(certificate, key)
        self.configure()

    def configure(self, deadline_s: float = 5.0) -> None:
        source, far = self._folder / "certificate.pem", self._folder / "far" / "ca.pem"
        text = CONFIGURATION.format(
            source_port=self.source.tls_port or self.source.port,
            source_tls=f'tls = "on"\nca_file = "{source}"' if self._use_tls else "",
            destination_port=self.destination.port,
            destination_tls=f'tls = "on"\nca_file = "{far}"' if self._use_tls else "",
            deadline_s=deadline_s,
        )
        self.agent.config.write_text(text)

    def publish_a_burst(self) -> None:
        numbers = range(self._published, self._published + BURST)
        self.source.publish(*[("plant/meter/count", str(number).encode()) for number in numbers], timeout_s=60)
        self._published += BURST

    def arrived(self) -> list[StreamMessage]:
        """Each message once, in the order of its first arrival."""
        everything = self.destination.subscriber.messages(0)
        return list({message.message_id: message for message in everything}.values())

    def numbers(self) -> list[int]:
        readings = readings_of(*self.arrived())
        return [round(cbor2.loads(io.content_data or b"")) for io in readings if io.info_type == "count"]

    def wait_for_all(self) -> None:
        wait_until(lambda: set(self.numbers()) == set(range(self._published)), "every reading arrived")

    def is_subscribed(self) -> bool:
        try:
            status = json.loads((self.agent.folder / "data" / "status.json").read_text())
        except (FileNotFoundError, ValueError):
            return False
        return bool(status["devices"]["plant"]["state"] == "up" and status["links"]["out"]["is_up"])


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def between(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Between]:
    between = Between(tmp_path, use_tls=request.param)
    with between.source, closing(between.destination):
        between.destination.start()
        yield between


def test_every_reading_arrives_through_restarts_a_reload_and_a_kill(between: Between) -> None:
    with between.agent.start() as process:
        wait_until(between.is_subscribed, "both links are up")
        between.publish_a_burst()
        between.configure(deadline_s=6.0)
        process.send_signal(signal.SIGHUP)
        between.publish_a_burst()
        between.wait_for_all()
        assert sorted(between.numbers()) == between.numbers(), "no reading twice, and all in order"
        between.destination.stop()
        between.publish_a_burst()
        between.destination.start()
        between.source.stop()
        between.source.start()
        between.publish_a_burst()
        process.kill()
        process.wait()
    between.publish_a_burst()
    with between.agent.start() as process:
        between.wait_for_all()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert_whole(between.arrived())
