"""The MQTT bridge: publishes messages of an MQTT broker to the node's streams."""
