"""What is wrong with the options for other nodes and brokers is said before anything is opened."""

from pathlib import Path

import pytest

from agent.cli import main

CONFIG_ERROR = 78


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--join", "tracker:1"], "tracker 'tracker:1' is not ws://"),
        (["--join", "ws://tracker:1", "--overlay", "nowhere"], "--overlay: 'nowhere' is not HOST:PORT"),
        (["--join", "ws://tracker:1", "--advertise", "me"], "address 'me' is not ws://"),
        (["--tracker", "127.0.0.1:70000"], "--tracker: '127.0.0.1:70000' is not HOST:PORT"),
        (["--mqtt", "broker", "--mqtt-topic", "a/#"], "expected a URL mqtt://"),
        (["--mqtt", "mqtt://broker"], "no topic to subscribe to"),
        (["--mqtt", "mqtt://broker", "--mqtt-topic", "a/#/b"], "'a/#/b' is not a topic filter"),
        (["--mqtt-topic", "a/#"], "--mqtt-topic needs a broker"),
    ],
)
def test_a_node_with_wrong_options_does_not_start(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert main(["node", "run", "--data", str(data), *options]) == CONFIG_ERROR
    assert problem in capsys.readouterr().err
    assert not data.exists()


def test_a_tracker_with_an_invalid_listen_address_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "tracker", "--listen", "nowhere"]) == CONFIG_ERROR
    assert "--listen: 'nowhere' is not HOST:PORT" in capsys.readouterr().err
