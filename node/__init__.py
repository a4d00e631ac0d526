"""A local network that stock Streamr clients accept: one process, one SQLite file, no outside service."""

from node.config import NodeConfig, load_config
from node.hub.hub import Hub, Subscriber
from node.limits import Limits
from node.service import Node
from node.streams import StreamPart

__all__ = ["Hub", "Limits", "Node", "NodeConfig", "StreamPart", "Subscriber", "load_config"]
