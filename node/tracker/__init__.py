"""The tracker: nodes tell it where they are, it tells them whom to connect to."""

from node.tracker.server import TrackerServer
from node.tracker.topology import Topology
from node.tracker.tracker import Outgoing, Peer, Tracker

__all__ = ["Outgoing", "Peer", "Topology", "Tracker", "TrackerServer"]
