"""`headgate doctor` greets a real broker as the publisher would, and leaves the publisher's own session alone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config.configuration import load_config
from agent.operator.doctor.connections import LinkFacts, gather_link, link_targets
from testbed.mosquitto import Broker

pytestmark = pytest.mark.needs("mosquitto", "mosquitto")

PASSWORD = "correct horse"
CONFIGURATION = """
[device]
name = "bench"
[publishers.broker]
kind = "mqtt"
host = "127.0.0.1"
port = {port}
username = "gateway"
password_file = "secret"
version = "{version}"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that accepts only the gateway."""
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "gateway", PASSWORD], check=True, capture_output=True)
    more = f"password_file {passwords}\nlog_type all"
    with Broker(tmp_path / "broker", more) as running:
        yield running


def _greeted(broker: Broker, folder: Path, password: str, version: str = "5") -> LinkFacts:
    secret = folder / "secret"
    secret.write_text(password + "\n")
    secret.chmod(0o600)
    (folder / "headgate.toml").write_text(CONFIGURATION.format(port=broker.port, version=version))
    (end,) = link_targets(load_config(folder / "headgate.toml"))
    return gather_link(end, None)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_the_right_password_is_good(broker: Broker, tmp_path: Path, version: str) -> None:
    facts = _greeted(broker, tmp_path, PASSWORD, version)
    assert (facts.failed_at, facts.problem) == ("", "")


def test_a_wrong_password_is_reported_and_not_shown(broker: Broker, tmp_path: Path) -> None:
    facts = _greeted(broker, tmp_path, "battery staple")
    assert facts.failed_at == "login"
    assert "Not authorized" in facts.problem
    assert "staple" not in facts.problem


def test_it_comes_under_a_name_of_its_own(broker: Broker, tmp_path: Path) -> None:
    """The same name would end the session of the agent that runs."""
    _greeted(broker, tmp_path, PASSWORD)
    assert "as bench-doctor" in (tmp_path / "broker" / "mosquitto.log").read_text()
