"""The tracker: nodes report their address and streams, and it assigns them neighbours."""

from node.tracker.server import TrackerServer
from node.tracker.topology import Topology
from node.tracker.tracker import Outgoing, Peer, Tracker

__all__ = ["Outgoing", "Peer", "Topology", "Tracker", "TrackerServer"]
