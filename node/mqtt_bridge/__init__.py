"""The MQTT bridge: publishes messages of an MQTT broker to the node's streams."""

from node.mqtt_bridge.bridge import MqttBridge, read_payload
from node.mqtt_bridge.settings import MqttSettings, Route

__all__ = ["MqttBridge", "MqttSettings", "Route", "read_payload"]
