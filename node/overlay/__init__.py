"""The overlay: links to neighbour nodes, over which messages are forwarded from node to node."""

from node.overlay.mesh import Mesh
from node.overlay.overlay import Overlay, OverlaySettings

__all__ = ["Mesh", "Overlay", "OverlaySettings"]
