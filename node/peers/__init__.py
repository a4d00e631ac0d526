"""What nodes and trackers share: how they shake hands, what dialects they speak, and the sockets that carry it."""

from node.peers.backoff import Backoff
from node.peers.connection import PeerConnection, dial
from node.peers.dialects import Dialect, NetworkLayer, Plain
from node.peers.handshake import Hello, PeerType
from node.peers.server import PeerServer, listen, shown_address

__all__ = [
    "Backoff",
    "Dialect",
    "Hello",
    "NetworkLayer",
    "PeerConnection",
    "PeerServer",
    "PeerType",
    "Plain",
    "dial",
    "listen",
    "shown_address",
]
