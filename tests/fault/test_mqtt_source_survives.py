"""Readings from a broker, and an agent that is killed, stopped or reloaded in the middle of them.

None is lost. A killed agent may store again what the broker delivers again, and nothing else; an agent that stops or
reloads in order stores every reading once, and so does one whose connection loses acknowledgements.
"""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cbor2
import pytest

from tests.effort import FIRST_SEED, effort
from tests.support.brokers import Broker
from tests.support.patience import PATIENCE_S
from tests.support.recording_proxy import recording_proxy
from tests.support.running_agent import Agent, assert_whole, readings_of, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs("mosquitto", "mosquitto")]

KILLS = effort(test=3, soak=200)
STOPS = effort(test=2, soak=100)
BREAKS = effort(test=4, soak=300)
READINGS_PER_LIFE = 400
DRIVER = """
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {port}
connect_timeout_s = 10
[[drivers.plant.subscriptions]]
topic = "plant/{{sensor}}/{{quantity}}"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as broker:
        yield broker


def test_a_killed_agent_loses_nothing_and_stores_again_only_what_was_delivered_again(
    tmp_path: Path, broker: Broker
) -> None:
    chance = random.Random(11)
    with recording_proxy(broker.port) as proxy:
        agent = Agent.make(tmp_path / "agent", rate_hz=1, extra=DRIVER.format(port=proxy.port))
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
            wait_until(lambda: agent.log().count("running; ") > KILLS + 1, "it runs")
            wait_until(lambda: _copies(agent).keys() >= expected, "every reading is published")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        assert_whole(agent.messages())
        copies = _copies(agent)
        assert copies.keys() == expected
        too_many = {value: count for value, count in copies.items() if count > len(proxy.deliveries[b"%d" % value])}
        assert not too_many, "stored more often than delivered"
        doubled = sum(copies.values()) - len(copies)
        assert doubled <= KILLS * READINGS_PER_LIFE, "each kill can double what was under way, at most"


def test_an_agent_that_stops_and_reloads_in_order_stores_every_reading_once(tmp_path: Path, broker: Broker) -> None:
    agent = Agent.make(tmp_path / "agent", rate_hz=1, commit_interval_s=0.5, extra=DRIVER.format(port=broker.port))
    with _publishing(broker) as published:
        for stop in range(STOPS):
            with agent.start() as process:
                _wait_until_up(agent, 2 * stop + 1)
                settings = agent.config.read_text().replace(f"timeout_s = {10 + stop}", f"timeout_s = {11 + stop}")
                agent.config.write_text(settings)
                process.send_signal(signal.SIGHUP)
                _wait_until_up(agent, 2 * stop + 2)
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
    starts = agent.log().count("running; ")
    with agent.start() as process:
        wait_until(lambda: agent.log().count("running; ") > starts, "it runs")
        wait_until(lambda: published[-1] in _copies(agent), "the last reading is published")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    copies = _copies(agent)
    first = min(copies)  # what was published before the first subscription is in no session
    assert copies == Counter(range(first, published[-1] + 1))


def test_an_agent_whose_acknowledgements_are_lost_stores_every_reading_once(tmp_path: Path, broker: Broker) -> None:
    """With a connection that breaks, or with one that a reload ends while the broker reads nothing."""
    chance = random.Random(FIRST_SEED)
    with recording_proxy(broker.port) as proxy, _publishing(broker) as published:
        agent = Agent.make(tmp_path / "agent", rate_hz=1, commit_interval_s=0.1, extra=DRIVER.format(port=proxy.port))
        with agent.start() as process:
            for at in range(BREAKS):
                _wait_until_up(agent, at + 1)
                proxy.passes_acknowledgements.clear()
                time.sleep(chance.uniform(0.1, 0.5))
                if at % 2:
                    proxy.break_connections()
                    proxy.passes_acknowledgements.set()
                else:
                    settings = agent.config.read_text().replace(f"timeout_s = {10 + at}", f"timeout_s = {12 + at}")
                    agent.config.write_text(settings)
                    process.send_signal(signal.SIGHUP)
                    wait_until(lambda at=at: _reloads(agent) > at // 2, "it has reloaded")  # type: ignore[misc]
                    proxy.break_connections()
                    proxy.passes_acknowledgements.set()
            _wait_until_up(agent, BREAKS + 1)
            last = published[-1]
            wait_until(lambda: last in _copies(agent), "the last reading is published")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    copies = _copies(agent)
    doubled = {value: count for value, count in copies.items() if count > 1}
    assert not doubled, "stored twice"
    assert set(range(min(copies), last + 1)) <= copies.keys()


def _reloads(agent: Agent) -> int:
    return agent.log().count("new configuration in use")


@contextmanager
def _publishing(broker: Broker) -> Iterator[list[int]]:
    """Some hundred a second, until the block ends; gives what was published."""
    published, is_over = [-1], threading.Event()

    def publish() -> None:
        while not is_over.is_set():
            values = range(published[-1] + 1, published[-1] + 21)
            broker.publish(*(("plant/boiler/pressure", b"%d" % value) for value in values))
            published.append(values[-1])

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield published
    finally:
        is_over.set()
        thread.join()


def _wait_until_up(agent: Agent, times: int) -> None:
    """And until readings come, so that some are under way, and others wait for a commit."""
    wait_until(lambda: agent.log().count("device up; device=plant") >= times, "it is subscribed")
    before = len(agent.lines())
    wait_until(lambda: len(agent.lines()) > before + 100, "readings come")


def _readings(life: int) -> list[tuple[str, bytes]]:
    first = life * READINGS_PER_LIFE
    return [("plant/boiler/pressure", b"%d" % number) for number in range(first, first + READINGS_PER_LIFE)]


def _copies(agent: Agent) -> Counter[int]:
    """How often each reading is in a message."""
    found = readings_of(*agent.messages())
    return Counter(round(cbor2.loads(io.content_data or b"")) for io in found if io.info_type == "pressure")
