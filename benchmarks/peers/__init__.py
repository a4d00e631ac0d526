"""Programs that forward MQTT readings from one broker to another, Headgate included, set up as their manuals say.

forwarder        what the benchmark needs to know of each
headgate, thingsboard, node_red, bridge
traffic          the readings at one end, and the count of them at the other
broker           mosquitto at both ends
"""
