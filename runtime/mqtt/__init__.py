"""MQTT on the event loop, for every part that talks to a broker: `runtime.mqtt.link.MqttLink` is one connection.

paho makes the connection, its TLS and its session. It is given whole packets only, of the kinds and sizes that a broker
may send; publications, of which there are thousands, are taken apart here (`runtime/mqtt/packets.py`). There is no
thread but for connecting. paho is imported by the first connection, and nothing else here before its first use.
"""
