"""From an MQTT broker into the node's streams."""

from node.mqtt_bridge.bridge import MqttBridge
from node.mqtt_bridge.payload import read_payload
from node.mqtt_bridge.settings import MqttSettings, Route

__all__ = ["MqttBridge", "MqttSettings", "Route", "read_payload"]
