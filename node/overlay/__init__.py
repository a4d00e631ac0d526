"""The node among other nodes: whom it is linked with, and how messages pass on from node to node."""

from node.overlay.mesh import Mesh
from node.overlay.overlay import Overlay, OverlaySettings

__all__ = ["Mesh", "Overlay", "OverlaySettings"]
