"""Shared by nodes and trackers: the handshake, the message dialects, and the websocket connections."""

from node.peers.connection import PeerConnection, dial
from node.peers.dialects import Dialect, NetworkLayer, Plain
from node.peers.handshake import Hello, PeerType
from node.peers.server import PeerServer, listen, shown_address

__all__ = [
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
