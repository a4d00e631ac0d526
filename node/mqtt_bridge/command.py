"""What `headgate node run` is told of an MQTT broker."""

import argparse
from pathlib import Path

from node.errors import ConfigError
from node.mqtt_bridge.bridge import MqttBridge
from node.mqtt_bridge.settings import MqttSettings, Route, stable_client_id
from node.peers.arguments import new_chance
from node.service import Node

__all__ = ["add_mqtt_arguments", "attach_mqtt_bridge"]


def add_mqtt_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("MQTT bridge")
    group.add_argument("--mqtt", metavar="URL", help="take stream messages from this broker, mqtt://[USER@]HOST[:PORT]")
    group.add_argument(
        "--mqtt-topic",
        action="append",
        default=[],
        metavar="FILTER[=STREAM]",
        help="a filter of topics, and the one stream that may come through it; may be given again",
    )
    group.add_argument("--mqtt-client-id", metavar="ID", help="default: one that stays the same for the same --data")
    group.add_argument("--mqtt-ca-file", type=Path, metavar="FILE", help="whom to trust with mqtts://")
    group.add_argument("--mqtt-password-file", type=Path, metavar="FILE", help="the password of USER")


def attach_mqtt_bridge(node: Node, arguments: argparse.Namespace) -> None:
    """Let the node listen to a broker, as its command line says. Raises: `ConfigError`."""
    if not arguments.mqtt:
        if arguments.mqtt_topic:
            raise ConfigError("mqtt: --mqtt-topic is given, but no broker by --mqtt")
        return
    settings = MqttSettings.from_url(
        arguments.mqtt,
        client_id=arguments.mqtt_client_id or stable_client_id(node.config.data),
        routes=tuple(Route.parse(text) for text in arguments.mqtt_topic),
        ca_file=arguments.mqtt_ca_file,
        password_file=arguments.mqtt_password_file,
    )
    bridge = MqttBridge(node.hub, settings, chance=new_chance())
    node.tasks["mqtt bridge"] = bridge.run
