"""Programs that forward MQTT readings from one broker to another, Headgate included, set up as their manuals say.

forwarder        the interface of each
headgate, thingsboard, node_red, bridge
traffic          publishes readings at the origin and counts them at the destination
broker           mosquitto at both ends
"""
