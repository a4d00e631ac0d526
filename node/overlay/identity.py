"""How others know this node."""

from dataclasses import dataclass

from node.peers.handshake import PeerType

__all__ = ["Identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    peer_id: str
    address: str
    peer_type: PeerType
