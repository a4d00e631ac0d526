"""The MQTT options of `headgate node run`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from node.errors import ConfigError
from node.mqtt_bridge.bridge import MqttBridge
from node.mqtt_bridge.settings import MqttSettings, Route, stable_client_id
from node.peers.server import new_chance
from node.service import Node


def add_mqtt_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("MQTT bridge")
    group.add_argument("--mqtt", metavar="URL", help="read stream messages from this broker, mqtt://[USER@]HOST[:PORT]")
    group.add_argument(
        "--mqtt-topic",
        action="append",
        default=[],
        metavar="FILTER[=STREAM]",
        help="topic filter to subscribe to, and the only stream accepted through it; may be given several times",
    )
    group.add_argument("--mqtt-client-id", metavar="ID", help="MQTT client id (default: derived from --data)")
    group.add_argument("--mqtt-version", choices=("5", "3.1.1"), default="5", help="MQTT protocol version (default: 5)")
    group.add_argument("--mqtt-ca-file", type=Path, metavar="FILE", help="CA certificates (PEM) to trust for mqtts://")
    group.add_argument(
        "--mqtt-cert-file", type=Path, metavar="FILE", help="client certificate (PEM), if the broker requires one"
    )
    group.add_argument("--mqtt-key-file", type=Path, metavar="FILE", help="private key of the client certificate")
    group.add_argument("--mqtt-password-file", type=Path, metavar="FILE", help="private file with the password of USER")


def plan_mqtt_bridge(arguments: argparse.Namespace, data: Path) -> Callable[[Node], None]:
    """A function that attaches the MQTT bridge of the command line to a node. Raises: `ConfigError`."""
    if arguments.mqtt is None and arguments.mqtt_topic:
        raise ConfigError("mqtt: --mqtt-topic needs a broker; add --mqtt URL")
    settings = _settings(arguments, data) if arguments.mqtt is not None else None

    def attach(node: Node) -> None:
        if settings is not None:
            bridge = MqttBridge(node.hub, settings, chance=new_chance())
            node.tasks["mqtt bridge"] = bridge.run
            node.counters_of_parts["mqtt"] = lambda: bridge.counters

    return attach


def _settings(arguments: argparse.Namespace, data: Path) -> MqttSettings:
    return MqttSettings.from_url(
        arguments.mqtt,
        client_id=arguments.mqtt_client_id or stable_client_id(data),
        routes=tuple(Route.parse(text) for text in arguments.mqtt_topic),
        version=arguments.mqtt_version,
        ca_file=arguments.mqtt_ca_file,
        cert_file=arguments.mqtt_cert_file,
        key_file=arguments.mqtt_key_file,
        password_file=arguments.mqtt_password_file,
    )
