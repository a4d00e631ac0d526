"""MQTT on the event loop, for driver, publisher and node: `runtime.mqtt.link.MqttLink` is one connection.

paho handles the connection, TLS and the session. It receives only complete packets, of the kinds and sizes that a
broker may send; publications, which are frequent, are parsed here (`runtime/mqtt/packets.py`). The only thread is for
connecting. paho is imported by the first connection.
"""
