from pathlib import Path

import pytest

from node.errors import ConfigError
from node.mqtt_bridge.settings import MqttSettings, Route, stable_client_id

ROUTES = (Route("headgate/#"),)


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "username"),
    [
        ("mqtt://broker", "broker", 1883, "off", None),
        ("mqtts://broker/", "broker", 8883, "on", None),
        ("mqtt://pi%40home@[::1]:77", "::1", 77, "off", "pi@home"),
    ],
)
def test_a_url_names_the_broker(url: str, host: str, port: int, tls: str, username: str | None) -> None:
    settings = MqttSettings.from_url(url, client_id="id", routes=ROUTES)
    broker = settings.broker
    assert (broker.host, broker.port, broker.tls, broker.username) == (host, port, tls, username)


@pytest.mark.parametrize(
    "url", ["broker", "http://broker", "mqtt://", "mqtt://h:x", "mqtt://h:99999", "mqtt://h/path", "mqtt://[::1"]
)
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected a URL mqtt://"):
        MqttSettings.from_url(url, client_id="id", routes=ROUTES)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        MqttSettings.from_url("mqtt://pi:geheim@broker", client_id="id", routes=ROUTES)
    assert "geheim" not in str(refused.value)


def test_a_bridge_without_topics_or_with_missing_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no topic"):
        MqttSettings.from_url("mqtt://h", client_id="id", routes=())
    with pytest.raises(ConfigError, match="missing: No such file"):
        MqttSettings.from_url("mqtt://h", client_id="id", routes=ROUTES, password_file=tmp_path / "missing")
    with pytest.raises(ConfigError, match="no such file"):
        MqttSettings.from_url("mqtts://h", client_id="id", routes=ROUTES, ca_file=tmp_path / "missing")


def test_secrets_that_others_can_read_and_tls_files_that_do_not_fit_are_refused_all_at_once(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("geheim")
    secret.chmod(0o644)
    with pytest.raises(ConfigError) as refused:
        MqttSettings.from_url("mqtt://h", client_id="id", routes=ROUTES, password_file=secret, key_file=secret)
    assert len(refused.value.problems) == 4
    assert str(refused.value).count("others can read or change it") == 2
    assert "geheim" not in str(refused.value)


def test_a_route_accepts_its_stream_on_its_topics_only() -> None:
    route = Route.parse("site/+/data=0xabc/temperature")
    assert route == Route("site/+/data", "0xabc/temperature")
    assert route.accepts("site/7/data", "0xabc/temperature")
    assert not route.accepts("site/7/data", "other")
    assert not route.accepts("site/7/8/data", "0xabc/temperature")


def test_a_route_without_a_stream_takes_any() -> None:
    assert Route.parse("headgate/#").accepts("headgate/a/b", "whatever")


@pytest.mark.parametrize("text", ["", "=stream", "a/#/b", "a#", "a/b+", "a\0b", "x" * 70_000])
def test_what_is_no_topic_filter_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="topic filter"):
        Route.parse(text)


def test_the_client_id_stays_the_same_for_the_same_data(tmp_path: Path) -> None:
    assert stable_client_id(tmp_path) == stable_client_id(tmp_path / "." / ".." / tmp_path.name)
    assert stable_client_id(tmp_path) != stable_client_id(tmp_path / "other")
    assert len(stable_client_id(tmp_path)) <= 23, "what every broker must take"
